"""Megatron's arguments, as its launch scripts and those of its relatives give them."""

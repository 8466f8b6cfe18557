"""Measured runs: what a trace says, what a step is made of, and what would change it."""

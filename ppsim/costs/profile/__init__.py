"""Costs from a profile."""

"""Sweeps: many cases of one experiment, run side by side, interrupted and resumed, kept in one file."""

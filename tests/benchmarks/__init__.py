"""Measurements: what the simulator costs, beside what the least that could do the same costs. They assert nothing."""

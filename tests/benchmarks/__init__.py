"""Measurements: what the simulator costs, beside the least that does the same. They assert nothing.

``python -m tests.benchmarks`` prints them; see ``--help`` for sizes and for writing them to a file.
"""

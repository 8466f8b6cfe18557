"""Metrics: one file per family; each figure is a small pure function of a Run, found by being here."""

from ppsim.metrics.base import Metric, Run, metric
from ppsim.metrics.registry import chosen, every, known, rows, scalars, tables

__all__ = ["Metric", "Run", "chosen", "every", "known", "metric", "rows", "scalars", "tables"]

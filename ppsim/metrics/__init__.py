"""Metrics: one file per family; each figure is a small pure function of a Run."""

from ppsim.metrics import bubble
from ppsim.metrics.base import METRICS, Metric, Run, metric

__all__ = ["METRICS", "Metric", "Run", "bubble", "metric"]

"""Metrics: one file per family; each figure is a small pure function of a Run."""

from ppsim.metrics import bounds, bubble, critical_path, links, memory, staleness, throughput, waits
from ppsim.metrics.base import METRICS, Metric, Run, metric, scalars

__all__ = [
    "METRICS",
    "Metric",
    "Run",
    "bounds",
    "bubble",
    "critical_path",
    "links",
    "memory",
    "metric",
    "scalars",
    "staleness",
    "throughput",
    "waits",
]

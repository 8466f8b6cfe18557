"""Traffic: bytes and utilisation of every port, messages between every pair of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ppsim.engine.timeline import PER_SECOND
from ppsim.metrics.base import Run, metric
from ppsim.ops import Longs


def messages(run: Run) -> Longs:
    """How many messages each route carries."""
    return np.bincount(run.plan.transfers.route, minlength=len(run.plan.routes.src))


@metric("links", unit="table", definition="per port: bytes, busy time, busy time / makespan", needs=("links",))
def links(run: Run) -> list[dict[str, Any]]:
    """One row per port in use, in the order of their names' first use."""
    plan, routes = run.plan, run.plan.routes
    count = run.once(messages)
    size, busy = count * routes.bytes, count * routes.occupancy
    total_size, total_busy = np.zeros(len(plan.ports), np.int64), np.zeros(len(plan.ports), np.int64)
    for port in (routes.egress, routes.ingress):
        used = port >= 0
        np.add.at(total_size, port[used], size[used])
        np.add.at(total_busy, port[used], busy[used])
    makespan = max(run.timeline.makespan, 1)
    return [
        {"port": name, "bytes": int(b), "busy_s": int(t) / PER_SECOND, "utilization": int(t) / makespan}
        for name, b, t in zip(plan.ports, total_size, total_busy, strict=True)
    ]


@metric("pairs", unit="table", definition="per ordered pair of ranks: messages and bytes", needs=("links",))
def pairs(run: Run) -> list[dict[str, int]]:
    """One row per (src, dst) that exchange messages, moves included, gradient sync not; sorted."""
    routes = run.plan.routes
    count = run.once(messages)
    found: dict[tuple[int, int], list[int]] = {}
    for src, dst, size, times in zip(
        routes.src.tolist(), routes.dst.tolist(), routes.bytes.tolist(), count.tolist(), strict=True
    ):
        if src != dst and times:
            row = found.setdefault((src, dst), [0, 0])
            row[0] += times
            row[1] += times * size
    return [{"src": s, "dst": d, "messages": n, "bytes": b} for (s, d), (n, b) in sorted(found.items())]

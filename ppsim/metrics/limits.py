"""What limits a run: its idle time by cause and by where it comes from."""

from __future__ import annotations

import numpy as np

from ppsim.metrics.base import Run
from ppsim.metrics.causes import CAUSES, Cause
from ppsim.metrics.last_need import freed_by
from ppsim.metrics.waits import segments


def limits(run: Run) -> list[tuple[str, str, int]]:
    """(cause, place, ns): all idle time by cause and place, the largest first.

    The place is a rank for ``upstream`` and ``sync``, a port for ``queue``, the link for ``transfer``, ``blocked`` and
    ``memory``, and all ranks for ``fill`` and ``drain``.
    """
    plan, found = run.plan, run.once(segments)
    p, ports = plan.ops.ranks, len(plan.ports)
    # Places by number: 0 is everywhere, then the ranks, the ports, and the links as source * ranks + destination.
    route = np.append(plan.transfers.route, 0)[found.transfer]
    link = 1 + p + ports + (plan.routes.src.astype(np.int64) * p + plan.routes.dst)
    place = np.append(link, 0)[np.where(found.transfer >= 0, route, -1)]
    queue = np.flatnonzero(found.cause == Cause.QUEUE)
    if len(queue):
        port = run.once(freed_by)[1][found.transfer[queue]]
        place[queue] = np.where(port >= 0, 1 + p + port, place[queue])
    elsewhere = np.flatnonzero((found.cause == Cause.UPSTREAM) | (found.cause == Cause.SYNC))
    place[elsewhere] = 1 + plan.ops.rank[found.blocker[elsewhere]]
    place[found.cause <= Cause.DRAIN] = 0
    codes, which = np.unique(place * len(Cause) + found.cause, return_inverse=True)
    total = np.zeros(len(codes), np.int64)
    np.add.at(total, which, found.length)
    order = np.lexsort((codes, -total))
    return [
        (CAUSES[code % len(Cause)], _place(run, code // len(Cause)), ns)
        for code, ns in zip(codes[order].tolist(), total[order].tolist(), strict=True)
    ]


def _place(run: Run, number: int) -> str:
    p, ports = run.plan.ops.ranks, len(run.plan.ports)
    if number == 0:
        return "all ranks"
    if number <= p:
        return f"rank {number - 1}"
    if number <= p + ports:
        return run.plan.ports[number - 1 - p]
    src, dst = divmod(number - 1 - p - ports, p)
    return f"link {src}→{dst}"

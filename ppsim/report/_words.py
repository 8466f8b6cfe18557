"""What a page says of an op: what it needs, and why it waited."""

from __future__ import annotations

from collections import defaultdict

from ppsim.metrics import Run, waits
from ppsim.plot.looks import CAUSES
from ppsim.plot.scales import NBSP, duration

MOST_INPUTS = 4
"""Inputs that are named; of more it says how many."""


def inputs(run: Run, rows: list[int]) -> list[str]:
    """What each of these rows needs beside the op before it on its rank: '1F3 from rank 1, 2F3'."""
    plan, names, tail = run.plan, run.plan.ops.names, run.plan.tail
    n, t = len(plan.ops), len(plan.transfers)
    producer, src = plan.transfers.producer.tolist(), plan.routes.src[plan.transfers.route].tolist()
    rank = plan.ops.rank.tolist()
    needed: dict[int, list[int]] = defaultdict(list)
    for needs in (plan.start_needs, plan.end_needs):
        for owner, event in zip(needs.owner.tolist(), needs.event.tolist(), strict=True):
            needed[owner].append(event)

    def name(event: int, own: int) -> str:
        if event < 2 * n:
            return names[event % n] if event >= n else f"start of {names[event]}"
        transfer = (event - 2 * n) % t
        sender, what = src[transfer], names[producer[transfer]]
        return f"{what} sent" if sender == own else f"{what} from rank {sender}"

    found = []
    for row in rows:
        events = dict.fromkeys(needed[row - bool(tail[row])])
        texts = [name(event, rank[row]) for event in list(events)[:MOST_INPUTS]]
        found.append(", ".join(texts) + (f" and {len(events) - MOST_INPUTS} more" if len(events) > MOST_INPUTS else ""))
    return found


def reasons(run: Run, rows: list[int]) -> list[str]:
    """Why each of these rows waited, empty where it didn't: '3 ms: transfer (input under way), for 1F3'."""
    if "dependencies" not in run.knows:
        return [""] * len(rows)
    wait, cause, blocker = (column.tolist() for column in waits.per_op(run))
    words = [CAUSES[name].words for name in waits.CAUSES]
    names = run.plan.ops.names
    found = []
    for row in rows:
        text = f"{duration(wait[row])}: {words[cause[row]]}".replace(NBSP, " ") if wait[row] > 0 else ""
        found.append(f"{text}, for {names[blocker[row]]}" if text and blocker[row] >= 0 else text)
    return found

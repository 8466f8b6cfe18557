"""Waits of random experiments beside a second computation of them, instant by instant."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import event, given, settings

from ppsim.metrics import Run, bubble, waits
from ppsim.metrics.last_need import freed_by
from ppsim.metrics.limits import limits as limited
from tests.metrics.executed import spans
from tests.metrics.instants import Instants, runs
from tests.metrics.strategies import Case, cases


def merged(run: Run, rank: int) -> Iterator[tuple[int, int, str]]:
    """The rank's segments, those of one cause that follow each other as one."""
    whole: tuple[int, int, str] | None = None
    for start, end, cause, _ in spans(run, rank):
        if whole is not None and whole[1:] == (start, cause):
            whole = (whole[0], end, cause)
            continue
        if whole is not None:
            yield whole
        whole = (start, end, cause)
    if whole is not None:
        yield whole


@given(cases())
@settings(max_examples=60, deadline=None)
def test_every_instant_has_the_cause_of_the_rules(case: Case) -> None:
    run = case.run()
    instants = Instants(run, case.fused)
    for rank in range(case.ranks):
        assert list(merged(run, rank)) == list(runs(instants.causes(rank)))
    for cause in np.unique(waits.segments(run).cause).tolist():
        event(waits.CAUSES[cause])


@given(cases())
@settings(max_examples=40, deadline=None)
def test_what_holds_for_any_run(case: Case) -> None:
    run = case.run()
    found = waits.segments(run)
    idle = bubble.idle(run)
    assert waits.by_cause(run).sum(axis=1).tolist() == idle.tolist()
    assert np.all(found.length > 0)
    assert sorted(zip(found.rank, found.start, strict=True)) == list(zip(found.rank, found.start, strict=True))
    same = found.rank[1:] == found.rank[:-1]
    assert np.all(found.start[1:][same] >= found.end[:-1][same])
    # Every wait but a drain is some op's, on its own rank; upstream is always another rank.
    drain = found.cause == waits.Cause.DRAIN
    assert np.array_equal(found.row < 0, drain)
    assert np.array_equal(run.plan.ops.rank[found.row[~drain]], found.rank[~drain])
    upstream = found.cause == waits.Cause.UPSTREAM
    assert np.all(run.plan.ops.rank[found.blocker[upstream]] != found.rank[upstream])
    carried = np.isin(found.cause, (waits.Cause.TRANSFER, waits.Cause.QUEUE, waits.Cause.BLOCKED))
    assert np.all(found.transfer[carried] >= 0)
    if not run.plan.ports:
        assert waits.Cause.QUEUE not in found.cause  # there is nothing to queue for
    limits = limited(run)
    assert sum(ns for _, _, ns in limits) == int(idle.sum())
    assert [ns for _, _, ns in limits] == sorted((ns for _, _, ns in limits), reverse=True)
    wait, _, _ = waits.per_op(run)
    assert int(wait.sum()) == int(found.length[~drain].sum())
    # A transfer that queued was let in by another one that left a port of its own at that instant.
    holder, port = freed_by(run)
    queued = run.timeline.transfer_start > run.timeline.ready
    assert np.array_equal(holder >= 0, queued)
    route = run.plan.transfers.route
    for j in np.flatnonzero(queued).tolist():
        assert run.timeline.left[holder[j]] == run.timeline.transfer_start[j]
        for transfer in (j, int(holder[j])):
            mine = int(route[transfer])
            assert port[j] in (run.plan.routes.egress[mine], run.plan.routes.ingress[mine])

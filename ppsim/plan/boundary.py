"""What stands between steps and around them: gradient sync, optimizer, barrier, batch normalisation."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from ppsim.config.experiment import Experiment
from ppsim.ops import Kind
from ppsim.plan.rows import Rows
from ppsim.plan.wiring import Messages, Wiring
from ppsim.schedules.base import Problem
from ppsim.units import round_half_up, to_bytes


def sync_messages(rows: Rows, problem: Problem, experiment: Experiment) -> Iterator[Messages]:
    """Gradient buckets of every REDUCE_GRAD: each a ring all-reduce's 2(n-1)/n of its bytes, to the rank's replicas.

    Source: Patarasuk and Yuan 2009, bandwidth-optimal all-reduce.
    """
    syncs = rows.select(Kind.REDUCE_GRAD)
    replicas = experiment.pipeline.data_parallel
    if not len(syncs) or replicas == 1:
        return
    bucket = to_bytes(experiment.pipeline.grad_bucket)
    issuer: list[int] = []
    size: list[int] = []
    for row in syncs.tolist():
        total = to_bytes(problem.costs.gradients[int(rows.stage[row])])
        full, rest = divmod(total, bucket) if bucket else (0, total)
        for part in [bucket] * full + ([rest] if rest else []):
            issuer.append(row)
            size.append(round_half_up(Fraction(2 * (replicas - 1) * part, replicas)))
    at = np.array(issuer, np.int64)
    nobody = np.full(len(at), -1, np.int64)
    yield Messages(at, at, nobody, nobody, rows.rank[at], rows.rank[at], np.array(size, np.int64))


def wire(wiring: Wiring) -> None:
    """Dependencies of gradient sync, of the barrier and of batch normalisation."""
    _gradient_sync(wiring)
    if wiring.experiment.pipeline.steps > 1 and wiring.experiment.runtime.barrier and not wiring.schedule.asynchronous:
        _barrier(wiring)
    _batch_sync(wiring)


def _gradient_sync(wiring: Wiring) -> None:
    """Buckets go one after the other; at the end REDUCE_GRAD waits for its own, overlapped OPTIM waits for all."""
    rows, messages, events = wiring.rows, wiring.messages, wiring.events
    buckets = np.flatnonzero(rows.kind[messages.issuer] == Kind.REDUCE_GRAD)
    if not len(buckets):
        return
    issuer = messages.issuer[buckets]
    wiring.sends.add(buckets, events.end(issuer) if _overlapped(wiring) else events.begin(issuer))
    same = np.flatnonzero(issuer[1:] == issuer[:-1])
    wiring.sends.add(buckets[same + 1], events.left(buckets[same]))
    if not _overlapped(wiring):
        wiring.ends.add(issuer, events.arrive(buckets))
        return
    optimizers = rows.select(Kind.OPTIM)
    place = np.searchsorted(optimizers, issuer)
    wiring.starts.add(optimizers[place], events.arrive(buckets))


def _overlapped(wiring: Wiring) -> bool:
    return wiring.experiment.runtime.grad_sync == "overlapped"


def _barrier(wiring: Wiring) -> None:
    """A step's first ops wait for the last op of the step before on every rank."""
    rows = wiring.rows
    for step in range(1, wiring.experiment.pipeline.steps):
        now, before = np.flatnonzero(rows.step == step), np.flatnonzero(rows.step == step - 1)
        firsts = now[np.unique(rows.rank[now], return_index=True)[1]]
        lasts = before[len(before) - 1 - np.unique(rows.rank[before][::-1], return_index=True)[1]]
        wiring.after_row(np.repeat(firsts, len(lasts)), np.tile(lasts, len(firsts)))


def _batch_sync(wiring: Wiring) -> None:
    """F(s+1,k) waits for every F(s,·) of its step, B(s-1,k) for every B(s,·), where stage s normalises."""
    rows, messages, events = wiring.rows, wiring.messages, wiring.events
    synced = [s for s in range(rows.stages) if wiring.experiment.pipeline.syncs(s)]
    if not synced:
        return
    message_of = np.full(len(rows), -1, np.int64)
    message_of[messages.producer[messages.consumer >= 0]] = np.flatnonzero(messages.consumer >= 0)
    for stage in synced:
        for kinds, neighbour in (((Kind.F,), stage + 1), ((Kind.B, Kind.I), stage - 1)):
            mine = rows.select(*kinds)
            for step in range(wiring.experiment.pipeline.steps):
                here = mine[rows.step[mine] == step]
                producers = here[rows.stage[here] == stage]
                waiting = here[rows.stage[here] == neighbour]
                things = np.repeat(wiring.head[waiting], len(producers))
                awaited = np.tile(producers, len(waiting))
                sent = message_of[awaited] >= 0
                wiring.starts.add(things[sent], events.arrive(message_of[awaited[sent]]))
                wiring.after_row(things[~sent], awaited[~sent])

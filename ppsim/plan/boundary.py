"""What stands between steps and around them: gradient sync, optimizer, barrier, batch normalisation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ppsim.ops import Kind, Longs, Numbers, OpTable
from ppsim.plan.messages import Messages
from ppsim.plan.spec import PlanSpec
from ppsim.plan.wiring import Wiring
from ppsim.units import round_half_up, to_bytes


@dataclass(frozen=True, eq=False)
class SyncGroups:
    """REDUCE_GRAD rows by who sums with whom: ``rows[starts[g]:starts[g + 1]]`` is a group, a row per rank, ascending.

    A group is the copies of one stage in one step, or in one round of an asynchronous schedule.
    """

    rows: Numbers
    starts: Numbers

    @classmethod
    def of(cls, ops: OpTable, spec: PlanSpec) -> SyncGroups:
        """The groups of all REDUCE_GRAD rows."""
        syncs = ops.index.select(Kind.REDUCE_GRAD)
        copies = np.array([len(ranks) for ranks in spec.problem.placement.ranks_of])
        stage, unit = ops.stage[syncs].astype(np.int64), ops.index.unit[syncs]
        # A stream's rounds are counted by microbatch, a step's sync has none.
        turn = np.where(unit >= 0, unit // copies[stage], ops.step[syncs])
        order = np.lexsort((ops.rank[syncs], turn, stage))
        new = np.flatnonzero((np.diff(stage[order]) != 0) | (np.diff(turn[order]) != 0)) + 1
        return cls(syncs[order], np.concatenate([[0], new, [len(syncs)]]) if len(syncs) else np.zeros(1, np.int64))

    @property
    def size(self) -> Numbers:
        """Members of each group."""
        return np.diff(self.starts)

    @property
    def group(self) -> Numbers:
        """The group of each member."""
        return np.repeat(np.arange(len(self.size)), self.size)

    def following(self) -> Numbers:
        """The member after each in its group's ring."""
        after = self.rows[np.minimum(np.arange(len(self.rows)) + 1, len(self.rows) - 1)]
        last = self.starts[1:] - 1
        after[last] = self.rows[self.starts[:-1]]
        return after

    def all_of(self, group: Numbers) -> tuple[Numbers, Numbers]:
        """For each i, every member of group i: (i repeated, their rows)."""
        size = self.size[group]
        start = np.repeat(self.starts[group] - np.cumsum(size) + size, size)
        return np.repeat(np.arange(len(group)), size), self.rows[start + np.arange(len(start))]


def sync_messages(ops: OpTable, spec: PlanSpec) -> Iterator[Messages]:
    """Gradient buckets of every REDUCE_GRAD: each a ring all-reduce's 2(n-1)/n of its bytes, to the ring's next rank.

    Where the whole pipeline has copies, the next rank is the same rank of another pipeline.
    Source: Patarasuk and Yuan 2009, bandwidth-optimal all-reduce.
    """
    if not ops.index.has(Kind.REDUCE_GRAD):
        return
    groups = SyncGroups.of(ops, spec)
    pipelines = spec.sync.pipelines
    members, copies = groups.rows, groups.size[groups.group] * pipelines
    following = members if pipelines > 1 else groups.following()
    some = copies > 1
    members, copies, following = members[some], copies[some], following[some]
    if not len(members):
        return
    stage = ops.stage[members]
    cases, case = np.unique(np.stack([stage, copies]), axis=1, return_inverse=True)
    summed = spec.problem.costs.summed
    sizes = [_buckets(summed[s], n, spec.sync.bucket_bytes) for s, n in cases.T.tolist()]
    count = np.array([len(size) for size in sizes])[case.ravel()]
    at = np.repeat(members, count)
    order = np.argsort(at, kind="stable")
    size = np.concatenate([sizes[c] for c in case.ravel().tolist()])[order]
    nobody = np.full(len(at), -1, np.int64)
    to = ops.rank[np.repeat(following, count)][order]
    yield Messages(ops.stage[at[order]], at[order], at[order], nobody, nobody, ops.rank[at[order]], to, size)


def _buckets(gradients: Fraction, copies: int, bucket: int) -> Longs:
    """Bytes that each rank sends for each bucket; one of none where there are no gradients: a sync takes its flight."""
    total = to_bytes(gradients)
    full, rest = divmod(total, bucket) if bucket else (0, total)
    parts = [bucket] * full + ([rest] if rest or not full else [])
    return np.array([round_half_up(Fraction(2 * (copies - 1) * part, copies)) for part in parts], np.int64)


def wire(wiring: Wiring) -> None:
    """Dependencies of gradient sync, of the barrier and of batch normalisation."""
    _gradient_sync(wiring)
    if wiring.spec.steps > 1 and wiring.spec.barrier:
        _barrier(wiring)
    _batch_sync(wiring)


def _gradient_sync(wiring: Wiring) -> None:
    """Buckets go one after the other, from when all copies are there; who waits for the sync waits for all copies'.

    That is REDUCE_GRAD itself at the end of a step and in a stream; where the sync is overlapped, OPTIM, or of a
    stream's rounds what takes them up. The last bucket of a rank is the last to arrive, since each leaves after the one
    before on the same way.
    """
    ops, messages, events = wiring.ops, wiring.messages, wiring.events
    if not ops.index.has(Kind.REDUCE_GRAD):
        return
    buckets = np.flatnonzero(ops.kind[messages.issuer] == Kind.REDUCE_GRAD)
    if not len(buckets):
        return
    issuer = messages.issuer[buckets]
    first = np.append(True, issuer[1:] != issuer[:-1])
    last = np.append(issuer[1:] != issuer[:-1], True)
    wiring.sends.add(buckets[~first], events.left(buckets[:-1][~last[:-1]]))

    groups = SyncGroups.of(ops, wiring.spec)
    group_of = np.full(len(ops), -1, np.int64)
    group_of[groups.rows] = groups.group
    last_bucket = np.full(len(ops), -1, np.int64)
    last_bucket[issuer[last]] = buckets[last]
    who, member = groups.all_of(group_of[issuer[first]])
    wiring.sends.add(buckets[first][who], events.begin(member))
    syncs = issuer[first]
    if wiring.spec.rounds_overlap:
        waits = taken_up(ops, syncs)[who]
        wiring.starts.add(waits[waits >= 0], events.arrive(last_bucket[member[waits >= 0]]))
        return
    if wiring.spec.problem.stream or not wiring.spec.sync.overlapped:
        wiring.ends.add(syncs[who], events.arrive(last_bucket[member]))
        return
    optimizers = ops.index.select(Kind.OPTIM)
    place = np.searchsorted(optimizers, syncs)
    wiring.starts.add(optimizers[place][who], events.arrive(last_bucket[member]))


def taken_up(ops: OpTable, syncs: Numbers) -> Numbers:
    """Of rounds whose sync is overlapped, what takes each up: its OPTIM, else the rank's next sync; -1: nothing."""
    updates = ops.index.select(Kind.REDUCE_GRAD, Kind.OPTIM)
    after = updates[np.minimum(np.searchsorted(updates, syncs) + 1, len(updates) - 1)]
    return np.where((after > syncs) & (ops.rank[after] == ops.rank[syncs]), after, -1)


def _barrier(wiring: Wiring) -> None:
    """A step's first ops wait for the last op of the step before on every rank."""
    offsets, steps = wiring.ops.offsets, wiring.spec.steps
    length = np.diff(offsets) // steps
    first = offsets[:-1][length > 0]
    length = length[length > 0]
    start = first + np.arange(1, steps)[:, None] * length
    wiring.after_row(np.repeat(start, len(first), axis=1).ravel(), np.tile(start - 1, len(first)).ravel())


def _batch_sync(wiring: Wiring) -> None:
    """F(s+1,k) waits for every F(s,·) of its step, B(s-1,k) for every B(s,·), where stage s normalises.

    Of the ops of one rank, and of the messages from one rank to another, the one issued last is the last to be there.
    """
    ops, messages, events = wiring.ops, wiring.messages, wiring.events
    spec = wiring.spec
    if not spec.sync.batch_normalised:
        return
    message_of = np.full(len(ops), -1, np.int64)
    data = np.flatnonzero(messages.consumer >= 0)
    message_of[messages.producer[data]] = data
    for stage in spec.sync.batch_normalised:
        for kinds, neighbour in (((Kind.F,), stage + 1), ((Kind.B, Kind.I), stage - 1)):
            mine = ops.index.select(*kinds)
            for step in range(spec.problem.steps):
                here = mine[ops.step[mine] == step]
                producers = here[ops.stage[here] == stage]
                waiting = wiring.head[here[ops.stage[here] == neighbour]]
                sent = message_of[producers]
                local, sent = producers[sent < 0], sent[sent >= 0]
                if spec.topology.cluster.sharing != "queueing":  # then one that is sent later may be there first
                    wiring.starts.add(np.repeat(waiting, len(sent)), np.tile(events.arrive(sent), len(waiting)))
                pair = messages.src[sent].astype(np.int64) * spec.problem.ranks + messages.dst[sent]
                last_sent = _last_of_each(pair, messages.issuer[sent], sent)
                last_local = _last_of_each(ops.rank[local], local, local)
                wiring.starts.add(np.repeat(waiting, len(last_sent)), np.tile(events.arrive(last_sent), len(waiting)))
                wiring.after_row(np.repeat(waiting, len(last_local)), np.tile(last_local, len(waiting)))


def _last_of_each(group: Numbers, position: Numbers, values: Numbers) -> Numbers:
    """The value with the largest position in each group."""
    order = np.lexsort((position, group))
    last = np.append(group[order][1:] != group[order][:-1], True)[: len(order)]
    found: Numbers = values[order][last]
    return found

"""Memory effects: what is held on which rank, from which event to which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ppsim.ops import MOVES, Ints, Kind, Longs, Numbers, OpTable, among
from ppsim.plan.durations import Weights, per_value
from ppsim.plan.table import Category, Events, Holdings, Versions
from ppsim.schedules.base import Problem
from ppsim.units import to_bytes

if TYPE_CHECKING:
    from ppsim.plan.wiring import Messages


def static(problem: Problem) -> Longs:
    """Bytes held throughout, shape (categories, ranks): weights, gradients and optimizer state of every stage held."""
    out = np.zeros((len(Category), problem.ranks), np.int64)
    costs = problem.costs
    for category, values in (
        (Category.WEIGHTS, costs.weights),
        (Category.GRADIENTS, costs.gradients),
        (Category.OPTIMIZER, costs.optimizer_state),
    ):
        size = per_value(values, to_bytes)
        out[category] = [sum(size[stage] for stage in held) for held in problem.placement.stages_of]
    return out


def recomputed_rows(ops: OpTable) -> NDArray[np.bool_]:
    """Rows whose (stage, microbatch) is recomputed."""
    if not ops.index.has(Kind.R):
        return np.zeros(len(ops), bool)
    return ops.index.lookup(Kind.R)[np.where(ops.index.unit < 0, 0, ops.index.key)] >= 0


def kept_by_forward(
    ops: OpTable, forward: Numbers, problem: Problem, weights: Weights, recomputed: NDArray[np.bool_]
) -> Longs:
    """Bytes that each forward keeps: the stage's activation, or its input alone where that is recomputed."""
    stage, microbatch = ops.stage[forward], ops.microbatch[forward]
    whole = weights.sizes(problem.costs.activation, stage, microbatch)
    if not ops.index.has(Kind.R):
        return whole
    return np.where(recomputed[forward], weights.sizes(problem.costs.stage_input, stage, microbatch), whole)


class _Gatherer:
    """Collects holdings; those of no bytes are dropped."""

    def __init__(self) -> None:
        self._columns: tuple[list[np.ndarray], ...] = ([], [], [], [], [])

    def add(self, rank: NDArray[np.signedinteger], category: Category, size: Longs, since: Ints, until: Ints) -> None:
        """Bytes ``size`` held on ``rank`` from event ``since`` to event ``until``."""
        if size.strides == (0,):  # all the same, as where stages are equal
            size = size if len(size) and size[0] > 0 else size[:0]
        elif len(some := np.flatnonzero(size > 0)) < len(size):
            rank, size, since, until = rank[some], size[some], since[some], until[some]
        if len(size):
            parts: tuple[np.ndarray, ...] = (rank, np.broadcast_to(np.int8(category), len(size)), size, since, until)
            for column, part in zip(self._columns, parts, strict=True):
                column.append(part)

    def finish(self) -> Holdings:
        """All of them as columns."""
        if not self._columns[0]:
            none = np.empty(0, np.int32)
            return Holdings(none, np.empty(0, np.int8), np.empty(0, np.int64), none, none)
        joined = []
        for column in self._columns:
            joined.append(np.concatenate(column) if len(column) > 1 else column[0])
            column.clear()  # there may be hundreds of megabytes in it
        return Holdings(*joined)


def holdings(
    ops: OpTable,
    messages: Messages,
    events: Events,
    problem: Problem,
    weights: Weights,
    leave_at_once: bool,
    versions: Versions | None = None,
) -> tuple[Holdings, Holdings]:
    """What activations, messages and stashed weights hold, and the activations in flight (a byte each).

    ``leave_at_once``: a message has left when its producer ends, so that its sender never holds it.
    """
    held, counted = _Gatherer(), _Gatherer()
    _activations(ops, messages, events, problem, weights, held, counted)
    data = messages.data(ops)
    sent = messages if len(data) == len(messages) else messages.some(data)
    held.add(sent.dst, Category.MESSAGES, sent.bytes, events.start(data), events.end(sent.consumer))
    if not leave_at_once:
        held.add(sent.src, Category.MESSAGES, sent.bytes, events.end(sent.producer), events.left(data))
    if versions is not None:
        stashed = versions.stashed
        size = np.array([to_bytes(value) for value in problem.costs.weights], np.int64)
        stage = ops.stage[stashed.since - events.ops]
        held.add(stashed.rank, Category.STASH, size[stage], stashed.since, stashed.until)
    return held.finish(), counted.finish()


def _activations(
    ops: OpTable,
    messages: Messages,
    events: Events,
    problem: Problem,
    weights: Weights,
    held: _Gatherer,
    counted: _Gatherer,
) -> None:
    # By (stage, microbatch): there is a forward of each.
    forward, backward = ops.index.lookup(Kind.F), ops.index.lookup(Kind.B, Kind.I)
    again, later = ops.index.lookup(Kind.R), ops.index.lookup(Kind.W)
    stage, rank, microbatch = ops.stage[forward], ops.rank[forward], ops.microbatch[forward]
    whole = weights.sizes(problem.costs.activation, stage, microbatch)
    kept = kept_by_forward(ops, forward, problem, weights, recomputed_rows(ops)) if ops.index.has(Kind.R) else whole
    for_weights = weights.sizes(problem.costs.held_for_weight_grad, stage, microbatch)
    split = later >= 0
    # A forward without a backward frees its activation at its own end.
    freed = events.end(np.where(backward >= 0, backward, forward))
    begin = events.begin(forward)
    one = np.broadcast_to(np.int64(1), len(forward))
    home = _at_home(ops, messages, events, forward, begin, freed)
    # What the weight half needs stays until its end; a recomputed stage has it only from its R on.
    recomputed = again >= 0
    until_w, until_backward = np.broadcast_to(np.int64(0), len(forward)), kept
    if ops.index.has(Kind.W):
        until_w = np.where(split, np.where(recomputed, 0, np.minimum(for_weights, kept)), 0)
        until_backward = kept - until_w
    for part_rank, part_since, part_until, which in home:
        held.add(part_rank, Category.ACTIVATIONS, until_backward[which], part_since, part_until)
        counted.add(part_rank, Category.ACTIVATIONS, one[which], part_since, part_until)
        if ops.index.has(Kind.W):
            last = part_until == freed[which]
            end = np.where(last & split[which], events.end(later[which]), part_until)
            held.add(part_rank, Category.ACTIVATIONS, until_w[which], part_since, end)
    rebuilt = np.flatnonzero(recomputed)
    if len(rebuilt):
        since = events.begin(again[rebuilt])
        left = np.where(split[rebuilt], np.minimum(for_weights, whole)[rebuilt], 0)
        # The stage's input was there already; the weight half may hold part of it beyond the backward.
        added = (whole - kept)[rebuilt]
        held.add(rank[rebuilt], Category.ACTIVATIONS, added - np.minimum(left, added), since, freed[rebuilt])
        held.add(rank[rebuilt], Category.ACTIVATIONS, np.minimum(left, added), since, events.end(later[rebuilt]))
        more = left - np.minimum(left, added)
        held.add(rank[rebuilt], Category.ACTIVATIONS, more, freed[rebuilt], events.end(later[rebuilt]))


def _at_home(
    ops: OpTable, messages: Messages, events: Events, forward: Numbers, begin: Ints, freed: Ints
) -> list[tuple[NDArray[np.signedinteger], Ints, Ints, Numbers | slice]]:
    """Where each activation lies and when: (rank, since, until, which forward), in flight at both ends of a move."""
    if not ops.index.has(*MOVES):
        return [(ops.rank[forward], begin, freed, slice(None))]
    moves = np.flatnonzero(among(ops.kind[messages.issuer], MOVES))
    forward_of = np.full(len(ops), -1, np.int64)
    forward_of[forward] = np.arange(len(forward))
    carried = forward_of[ops.index.lookup(Kind.F)[ops.index.key[messages.issuer[moves]]]]
    out = ops.kind[messages.issuer[moves]] == Kind.EVICT
    evict = np.full(len(forward), -1, np.int64)
    load = np.full(len(forward), -1, np.int64)
    evict[carried[out]] = moves[out]
    load[carried[~out]] = moves[~out]
    stays, away = np.flatnonzero(evict < 0), np.flatnonzero(evict >= 0)
    rank = ops.rank[forward]
    return [
        (rank[stays], begin[stays], freed[stays], stays),
        (rank[away], begin[away], events.arrive(evict[away]), away),
        (messages.dst[evict[away]], events.start(evict[away]), events.arrive(load[away]), away),
        (rank[away], events.start(load[away]), freed[away], away),
    ]

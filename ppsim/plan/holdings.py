"""Memory effects: what is held on which rank, from which event to which."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ppsim.ops import MOVES, Column, Constant, Ints, Kind, Longs, Numbers, OpTable, among, joined
from ppsim.plan.spec import PlanSpec
from ppsim.plan.table import Category, Holdings, Versions
from ppsim.plan.weights import per_value
from ppsim.plan.wiring import Wiring
from ppsim.schedules.base import Problem
from ppsim.units import to_bytes


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


def kept_by_forward(ops: OpTable, forward: Numbers, spec: PlanSpec) -> Column:
    """Bytes that each forward keeps: the stage's activation, or its input alone where that is recomputed."""
    stage, microbatch, costs = ops.stage[forward], ops.microbatch[forward], spec.problem.costs
    whole = spec.weights.sizes(costs.activation, stage, microbatch)
    if not ops.index.has(Kind.R):
        return whole
    again = ops.index.lookup(Kind.R)[ops.index.key[forward]]
    return np.where(again >= 0, spec.weights.sizes(costs.stage_input, stage, microbatch), whole)


class _Gathering:
    """Collects holdings; those of no bytes are dropped."""

    def __init__(self, category: Category) -> None:
        self.category = category
        self._columns: tuple[list[Column], ...] = ([], [], [], [], [])

    def add(self, rank: Numbers, size: Column, since: Ints, until: Ints, category: Category | None = None) -> None:
        """Bytes ``size`` held on ``rank`` from event ``since`` to event ``until``."""
        if isinstance(size, Constant):
            size = size if size.value > 0 else size[:0]
        elif len(some := np.flatnonzero(size > 0)) < len(size):
            rank, size, since, until = rank[some], size[some], since[some], until[some]
        if len(size):
            of = Constant(np.int8(self.category if category is None else category), len(size))
            for column, part in zip(self._columns, (rank, of, size, since, until), strict=True):
                column.append(part)

    def finish(self) -> Holdings:
        """All of them as columns."""
        if not self._columns[0]:
            none = np.empty(0, np.int32)
            return Holdings(none, Constant(np.int8(0), 0), Constant(np.int64(0), 0), none, none)
        together = []
        for column in self._columns:
            together.append(joined(column))
            column.clear()  # there may be hundreds of megabytes in it
        return Holdings(*together)  # type: ignore[arg-type]


def holdings(wiring: Wiring, at_once: bool, versions: Versions | None) -> tuple[Holdings, Holdings]:
    """What activations, running ops, messages and stashed weights hold, and the activations in flight (a byte each).

    ``at_once``: a message has left when its producer ends, so that its sender never holds it.
    """
    ops, events, held = wiring.ops, wiring.events, _Gathering(Category.ACTIVATIONS)
    in_flight = _activations(wiring, held)
    _transient(wiring, held)
    data = wiring.messages.data(ops)
    sent = wiring.messages.some(data)
    held.add(sent.dst, sent.bytes, events.start(data), events.end(sent.consumer), Category.MESSAGES)
    if not at_once:
        held.add(sent.src, sent.bytes, events.end(sent.producer), events.left(data), Category.MESSAGES)
    if versions is not None:
        stashed = versions.stashed
        size = np.array(per_value(wiring.spec.problem.costs.weights, to_bytes), np.int64)
        stage = ops.stage[stashed.since - events.ops]
        held.add(stashed.rank, size[stage], stashed.since, stashed.until, Category.STASH)
    return held.finish(), in_flight


def _activations(wiring: Wiring, held: _Gathering) -> Holdings:
    """Add what activations hold; returns those in flight, a byte each."""
    ops, events, index, spec = wiring.ops, wiring.events, wiring.ops.index, wiring.spec
    # By (stage, microbatch): there is a forward of each.
    forward, backward = index.lookup(Kind.F), index.lookup(Kind.B, Kind.I)
    kept = kept_by_forward(ops, forward, spec)
    # A forward without a backward frees its activation at its own end.
    freed = events.end(np.where(backward >= 0, backward, forward))
    # What the weight half needs stays until its end; a recomputed stage has it only from its R on.
    until_weight, later = None, index.lookup(Kind.W)
    if index.has(Kind.W):
        split = later >= 0
        for_weight = _held_for_weight(wiring, forward)
        until_weight = np.where(split & (index.lookup(Kind.R) < 0), np.minimum(for_weight, kept), 0)
    counted = _Gathering(Category.ACTIVATIONS)
    for rank, since, until, which in _at_home(wiring, forward, freed):
        counted.add(rank, Constant(np.int64(1), len(rank)), since, until)
        if until_weight is None:
            held.add(rank, kept[which], since, until)
            continue
        held.add(rank, (kept - until_weight)[which], since, until)
        last = until == freed[which]
        held.add(rank, until_weight[which], since, np.where(last & split[which], events.end(later[which]), until))
    if until_weight is not None:
        # With its incoming gradient an input half may leave more than its forward kept.
        more = np.maximum(for_weight, kept) - kept
        grown = np.flatnonzero(split & (index.lookup(Kind.R) < 0) & (more > 0))
        held.add(ops.rank[forward[grown]], more[grown], freed[grown], events.end(later[grown]))
    if index.has(Kind.R):
        _rebuilt(wiring, kept, freed, held)
    return counted.finish()


def _transient(wiring: Wiring, held: _Gathering) -> None:
    """Add what ops need beside that, while they run."""
    ops, events, spec = wiring.ops, wiring.events, wiring.spec
    costs = spec.problem.costs
    for sizes, kinds in (
        (costs.transient_forward, (Kind.F, Kind.R)),
        (costs.transient_backward, (Kind.B, Kind.I, Kind.W)),
    ):
        if any(sizes) and ops.index.has(*kinds):
            rows = ops.index.select(*kinds)
            size = spec.weights.sizes(sizes, ops.stage[rows], ops.microbatch[rows])
            held.add(ops.rank[rows], size, events.begin(rows), events.end(rows), Category.TRANSIENT)


def _held_for_weight(wiring: Wiring, forward: Numbers) -> Column:
    ops, spec = wiring.ops, wiring.spec
    return spec.weights.sizes(spec.problem.costs.held_for_weight_grad, ops.stage[forward], ops.microbatch[forward])


def _rebuilt(wiring: Wiring, kept: Column, freed: Ints, held: _Gathering) -> None:
    """What recomputations allocate: all but the stage's input, of which the weight half may hold a part longer."""
    ops, events, index, spec = wiring.ops, wiring.events, wiring.ops.index, wiring.spec
    keys = np.flatnonzero(index.lookup(Kind.R) >= 0)
    forward, again, later = (index.lookup(kind)[keys] for kind in (Kind.F, Kind.R, Kind.W))
    costs = spec.problem.costs
    whole = spec.weights.sizes(costs.rebuilt or costs.activation, ops.stage[forward], ops.microbatch[forward])
    left = np.where(later >= 0, _held_for_weight(wiring, forward), 0)
    added, rank, since = whole - kept[keys], ops.rank[forward], events.begin(again)
    of_added = np.minimum(left, added)
    held.add(rank, added - of_added, since, freed[keys])
    held.add(rank, of_added, since, events.end(later))
    held.add(rank, left - of_added, freed[keys], events.end(later))


def _at_home(wiring: Wiring, forward: Numbers, freed: Ints) -> Iterator[tuple[Numbers, Ints, Ints, Numbers | slice]]:
    """Where each activation lies and when: (rank, since, until, which forward), in flight at both ends of a move."""
    ops, events, messages, index = wiring.ops, wiring.events, wiring.messages, wiring.ops.index
    rank, begin = ops.rank[forward], events.begin(forward)
    if not index.has(*MOVES):
        yield rank, begin, freed, slice(None)
        return
    moves = np.flatnonzero(among(ops.kind[messages.issuer], MOVES))
    carried = index.key[messages.issuer[moves]]
    out = ops.kind[messages.issuer[moves]] == Kind.EVICT
    evict, load = np.full((2, len(forward)), -1, np.int64)
    evict[carried[out]] = moves[out]
    load[carried[~out]] = moves[~out]
    stays, away = np.flatnonzero(evict < 0), np.flatnonzero(evict >= 0)
    evict, load = evict[away], load[away]
    yield rank[stays], begin[stays], freed[stays], stays
    yield rank[away], begin[away], events.arrive(evict), away
    yield messages.dst[evict], events.start(evict), events.arrive(load), away
    yield rank[away], events.start(load), freed[away], away

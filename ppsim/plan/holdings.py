"""Memory effects: what is held on which rank, from which event to which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ppsim.costs.base import per_value
from ppsim.ops import MOVES, Column, Constant, Ints, Kind, Longs, Numbers, among, joined
from ppsim.plan.sizes import Sizes
from ppsim.plan.table import Category, Holdings, Versions
from ppsim.plan.wiring import Wiring
from ppsim.schedules.base import Problem
from ppsim.units import to_bytes

Where = tuple[Numbers, Ints, Ints]
"""A column of ranks, of the events since which something is held there, and of those until which."""
_Places = tuple[Numbers, Column, Ints, Ints]
"""The same, with what it is held for (the second column)."""


class _Home(NamedTuple):
    """Where and when activations lie, and of which forwards they are."""

    rank: Numbers
    since: Ints
    until: Ints
    which: Numbers | slice


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
        if any(size):
            out[category] = [sum(size[stage] for stage in held) for held in problem.placement.stages_of]
    return out


@dataclass(eq=False)
class _Span:
    """Things of one category: where and when they are held, asked for only where they have a size, and which."""

    category: Category
    size: Callable[[Sizes], Column]
    where: Callable[[], Where]

    @cached_property
    def place(self) -> Where:
        """``where()``, found once."""
        return self.where()


class Lifetimes:
    """What is held from when to when, whatever its size: activations, what runs, messages, stashed weights."""

    def __init__(self, wiring: Wiring, versions: Versions | None) -> None:
        freed = _freed(wiring)
        homes = list(_at_home(wiring, freed))
        self._spans = [*_activations(wiring, homes, freed), *_transient(wiring), *_messages(wiring)]
        if versions is not None:
            stashed = versions.stashed
            where = stashed.rank, stashed.since, stashed.until
            self._spans.append(_Span(Category.STASH, lambda sizes: sizes.stash(versions), lambda: where))
        self._homes = homes
        self._joined: dict[tuple[int, ...], _Places] = {}

    @cached_property
    def in_flight(self) -> Holdings:
        """Activations by number, a byte each."""
        rank, since, until, _ = zip(*self._homes, strict=True)
        n = sum(map(len, rank))
        category, one = _constant(Category.ACTIVATIONS, n), Constant(np.int64(1), n)
        return Holdings(_all(rank), category, one, _all(since), _all(until))

    def holdings(self, sizes: Sizes) -> Holdings:
        """With their bytes; those of none are left out."""
        spans: list[tuple[_Span, Numbers | None]] = []
        columns: list[Column] = []
        for span in self._spans:
            size = span.size(sizes)
            rows = _sized(size)
            if len(size) and (rows is None or len(rows)):
                spans.append((span, rows))
                columns.append(size if rows is None else size[rows])
        if not columns:
            none = np.empty(0, np.int32)
            return Holdings(none, _constant(Category.ACTIVATIONS, 0), Constant(np.int64(0), 0), none, none)
        rank, category, since, until = self._places(spans)
        return Holdings(rank, category, joined(columns), since, until)

    def _places(self, spans: list[tuple[_Span, Numbers | None]]) -> _Places:
        """Those of these rows of the spans (None: all); made once of the same whole spans."""
        key = tuple(id(span) for span, rows in spans if rows is None)
        whole = len(key) == len(spans)
        if whole and key in self._joined:
            return self._joined[key]
        parts = [span.place if rows is None else tuple(column[rows] for column in span.place) for span, rows in spans]
        rank, since, until = (_all(column) for column in zip(*parts, strict=True))
        category = joined([_constant(s.category, len(part[0])) for (s, _), part in zip(spans, parts, strict=True)])
        if whole:
            self._joined[key] = rank, category, since, until
        return rank, category, since, until


def _sized(size: Column) -> Numbers | None:
    """The rows that have a size; None where all have one."""
    if isinstance(size, Constant):
        return None if size.value > 0 else np.empty(0, np.int64)
    rows = np.flatnonzero(size > 0)
    return None if len(rows) == len(size) else rows


def _constant(category: Category, rows: int) -> Constant:
    return Constant(np.int8(category), rows)


def _all(columns: Sequence[Numbers]) -> Numbers:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def _messages(wiring: Wiring) -> Iterator[_Span]:
    """A message is held by its receiver from when it takes its ports, by its sender until it has left."""
    events, messages = wiring.events, wiring.messages
    data = messages.data(wiring.ops)

    def received() -> Where:
        sent = messages.some(data)
        return sent.dst, events.start(data), events.end(sent.consumer)

    def sent() -> Where:
        sent = messages.some(data)
        return sent.src, events.end(sent.producer), events.left(data)

    def size(sizes: Sizes) -> Column:
        return sizes.message if len(data) == len(messages) else sizes.message[data]

    nothing = Constant(np.int64(0), len(data))
    yield _Span(Category.MESSAGES, size, received)
    yield _Span(Category.MESSAGES, lambda sizes: nothing if sizes.at_once else size(sizes), sent)


def _transient(wiring: Wiring) -> Iterator[_Span]:
    """What ops need beside what they keep, while they run."""
    ops, events = wiring.ops, wiring.events

    def size(rows: Callable[[], Numbers], backward: bool, sizes: Sizes) -> Column:
        return sizes.transient(rows(), backward)

    def where(rows: Callable[[], Numbers]) -> Where:
        return ops.rank[rows()], events.begin(rows()), events.end(rows())

    for backward, kinds in ((False, (Kind.F, Kind.R)), (True, (Kind.B, Kind.I, Kind.W))):
        if ops.index.has(*kinds):
            rows = partial(ops.index.select, *kinds)
            yield _Span(Category.TRANSIENT, partial(size, rows, backward), partial(where, rows))


def _activations(wiring: Wiring, homes: list[_Home], freed: Ints) -> Iterator[_Span]:
    """What activations hold, by (stage, microbatch): there is a forward of each."""
    ops, events, index = wiring.ops, wiring.events, wiring.ops.index
    later = index.lookup(Kind.W)
    split = index.has(Kind.W)

    def there(home: _Home) -> Where:
        return home.rank, home.since, home.until

    def until_weight(home: _Home) -> Where:
        weight = later[home.which]
        last = (home.until == freed[home.which]) & (weight >= 0)
        return home.rank, home.since, np.where(last, events.end(weight), home.until)

    def kept(home: _Home, sizes: Sizes) -> Column:
        return (sizes.kept - sizes.until_weight if split else sizes.kept)[home.which]

    def kept_longer(home: _Home, sizes: Sizes) -> Column:
        return sizes.until_weight[home.which]

    for home in homes:
        yield _Span(Category.ACTIVATIONS, partial(kept, home), partial(there, home))
        if split:
            yield _Span(Category.ACTIVATIONS, partial(kept_longer, home), partial(until_weight, home))
    if split:
        rows = np.flatnonzero((later >= 0) & (index.lookup(Kind.R) < 0))

        def where() -> Where:
            return ops.rank[index.lookup(Kind.F)[rows]], freed[rows], events.end(later[rows])

        yield _Span(Category.ACTIVATIONS, lambda sizes: sizes.grown[rows], where)
    if index.has(Kind.R):
        yield from _rebuilt(wiring, freed)


def _freed(wiring: Wiring) -> Ints:
    """The end of the backward of each (stage, microbatch); a forward without one frees its activation at its own."""
    forward, backward = wiring.ops.index.lookup(Kind.F), wiring.ops.index.lookup(Kind.B, Kind.I)
    return wiring.events.end(np.where(backward >= 0, backward, forward))


def _rebuilt(wiring: Wiring, freed: Ints) -> Iterator[_Span]:
    """What recomputations allocate: all but the stage's input, of which the weight half may hold a part longer."""
    ops, events, index = wiring.ops, wiring.events, wiring.ops.index
    keys = np.flatnonzero(index.lookup(Kind.R) >= 0)
    forward, again, later = (index.lookup(kind)[keys] for kind in (Kind.F, Kind.R, Kind.W))
    rank, begun, backward, ended = ops.rank[forward], events.begin(again), freed[keys], events.end(later)
    kind = Category.ACTIVATIONS
    yield _Span(kind, lambda sizes: (sizes.rebuilt - sizes.left_of_rebuilt)[keys], lambda: (rank, begun, backward))
    yield _Span(kind, lambda sizes: sizes.left_of_rebuilt[keys], lambda: (rank, begun, ended))
    yield _Span(kind, lambda sizes: (sizes.left - sizes.left_of_rebuilt)[keys], lambda: (rank, backward, ended))


def _at_home(wiring: Wiring, freed: Ints) -> Iterator[_Home]:
    """Where each activation lies and when: (rank, since, until, which forward), in flight at both ends of a move."""
    ops, events, messages, index = wiring.ops, wiring.events, wiring.messages, wiring.ops.index
    forward = index.lookup(Kind.F)
    rank, begin = ops.rank[forward], events.begin(forward)
    if not index.has(*MOVES):
        yield _Home(rank, begin, freed, slice(None))
        return
    moves = np.flatnonzero(among(ops.kind[messages.issuer], MOVES))
    carried = index.key[messages.issuer[moves]]
    out = ops.kind[messages.issuer[moves]] == Kind.EVICT
    evict, load = np.full((2, len(forward)), -1, np.int64)
    evict[carried[out]] = moves[out]
    load[carried[~out]] = moves[~out]
    stays, away = np.flatnonzero(evict < 0), np.flatnonzero(evict >= 0)
    evict, load = evict[away], load[away]
    yield _Home(rank[stays], begin[stays], freed[stays], stays)
    yield _Home(rank[away], begin[away], events.arrive(evict), away)
    yield _Home(messages.dst[evict], events.start(evict), events.arrive(load), away)
    yield _Home(rank[away], events.start(load), freed[away], away)

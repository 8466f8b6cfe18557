"""Layers on stages so that the slowest rank is as fast as can be: dynamic programming, and a search where ranks share.

Where every rank holds one stage, the dynamic programme is exact: of all splits into consecutive layers it finds the one
whose slowest stage is fastest, of those the one whose stages are most equal (the least sum of squares), and of those
the one whose first stages are lightest, because they hold the most microbatches. Where ranks hold several stages
(virtual stages, two directions) their sums count: a branch-and-bound search then lowers first the slowest rank, then
the slowest stage; it is exact unless it gives up after ``NODES`` steps, which ``Balanced.proven`` tells.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import lcm
from typing import NamedTuple

from ppsim.costs.partition.layout import SplitError

NODES = 40_000
"""Steps of a search before it is given up, a second or so."""


class Span(NamedTuple):
    """The consecutive layers ``begin`` to ``end - 1`` on a stage."""

    stage: int
    begin: int
    end: int


Fits = Callable[[int, Sequence[Span]], bool]
"""Whether a rank's memory holds these of its spans."""


class Balanced(NamedTuple):
    """A split: layers per stage; ``proven``: nothing is better; ``capped``: every rank's memory holds its stages."""

    split: tuple[int, ...]
    proven: bool
    capped: bool


@dataclass(frozen=True)
class Question:
    """Layers by their time, on stages that sit on ranks."""

    times: Sequence[Fraction]
    stages_of: Sequence[Sequence[int]]
    """The stages of each rank."""
    fits: Fits | None = None

    @cached_property
    def before(self) -> tuple[int, ...]:
        """Time of all layers before each, in a unit in which all times are whole numbers."""
        unit = lcm(*(time.denominator for time in self.times))
        return (0, *accumulate(int(time * unit) for time in self.times))

    @cached_property
    def ranks_of(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each stage."""
        stages = 1 + max(stage for held in self.stages_of for stage in held)
        return tuple(tuple(r for r, held in enumerate(self.stages_of) if s in held) for s in range(stages))

    @cached_property
    def least_from(self) -> tuple[int, ...]:
        """The least time of a layer from each on."""
        backwards = accumulate((self.time(i, i + 1) for i in reversed(range(len(self.times)))), min)
        return (*reversed(tuple(backwards)), 0)

    @property
    def copies(self) -> int:
        """On how many ranks each stage is."""
        return len(self.ranks_of[0])

    def time(self, begin: int, end: int) -> int:
        """Time of consecutive layers."""
        return self.before[end] - self.before[begin]

    def holds(self, rank: int, spans: Sequence[Span]) -> bool:
        """Whether the rank's memory holds these spans."""
        return self.fits is None or self.fits(rank, spans)

    def loads(self, split: Sequence[int]) -> list[int]:
        """Time of every rank's layers."""
        ends = (0, *accumulate(split))
        return [sum(self.time(ends[s], ends[s + 1]) for s in held) for held in self.stages_of]

    def slowest(self, split: Sequence[int]) -> int:
        """Time of the slowest stage."""
        return max(self.time(*ends) for ends in _ends(split))


def balanced(question: Question) -> Balanced:
    """The best split, within the ranks' memory if any is.

    Raises SplitError where there are fewer layers than stages: an empty stage has to be asked for.
    """
    stages, layers = len(question.ranks_of), len(question.times)
    if layers < stages:
        raise SplitError(f"{layers} layers are too few for {stages} stages, each of which needs one")
    for asked in (question, Question(question.times, question.stages_of)) if question.fits else (question,):
        start = by_stage(asked)
        if start is not None and all(len(held) == 1 for held in question.stages_of):
            return Balanced(start, True, asked is question)
        if start is not None or asked.fits is not None:
            search = Search(asked)
            best = search.best(start)
            if best is not None:
                return Balanced(best, not search.gave_up, asked is question)
    raise SplitError("no split was found")  # pragma: no cover  (without a cap the dynamic programme finds one)


def by_stage(question: Question) -> tuple[int, ...] | None:
    """The split with the fastest slowest stage, then the most equal one; None where no stages fit the memory."""
    slowest = _programme(question, None)
    return None if slowest is None else _programme(question, question.slowest(slowest))


def _ends(split: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise((0, *accumulate(split))))


def _programme(question: Question, most: int | None) -> tuple[int, ...] | None:
    """By dynamic programming over (stage, layers so far) the split with the least slowest stage.

    With ``most``, which no stage may exceed, that with the least sum of squares. Of equals the last stages get more.
    """
    layers, stages = len(question.times), len(question.ranks_of)
    cost: list[int | None] = [0] + [None] * layers
    began: list[list[int]] = []
    for stage in range(stages):
        new: list[int | None] = [None] * (layers + 1)
        starts = [0] * (layers + 1)
        for end in range(stage + 1, layers - (stages - stage - 1) + 1):
            best: int | None = None
            for begin in range(end - 1, stage - 1, -1):
                time, so_far = question.time(begin, end), cost[begin]
                if time > (most if most is not None else time if best is None else best):
                    break
                if so_far is None:
                    continue
                value = max(so_far, time) if most is None else so_far + time * time
                if (best is None or value <= best) and _single(question, stage, begin, end):
                    best, starts[end] = value, begin
            new[end] = best
        cost = new
        began.append(starts)
    if cost[layers] is None:
        return None
    split, end = [], layers
    for starts in reversed(began):
        split.append(end - starts[end])
        end = starts[end]
    return tuple(reversed(split))


def _single(question: Question, stage: int, begin: int, end: int) -> bool:
    return all(question.holds(rank, [Span(stage, begin, end)]) for rank in question.ranks_of[stage])


@dataclass
class Search:
    """Branch and bound over the stages in their order; a state is the layers so far and what each rank has of them."""

    question: Question
    gave_up: bool = False
    _left: int = NODES
    _dead: set[tuple[int, int, tuple[int | Span, ...]]] = field(default_factory=set)

    def best(self, start: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """From a first split, if any, to the one with the least slowest rank, then the least slowest stage."""
        question, layers = self.question, len(self.question.times)
        copies, whole = question.copies, question.time(0, layers)
        largest = max(question.time(i, i + 1) for i in range(layers))
        found = start if start is not None and self._all_fit(start) else None

        def within_rank(most: int) -> tuple[int, ...] | None:
            return self._within(most, whole)

        least = max(largest, -(-copies * whole // len(question.stages_of)))
        found = self._least(least, copies * whole, within_rank, lambda split: max(question.loads(split)), found)
        if found is None:
            return None
        rank = max(question.loads(found))
        least = max(largest, -(-whole // len(question.ranks_of)))
        return self._least(least, whole, lambda most: self._within(rank, most), question.slowest, found)

    def _least(
        self, least: int, most: int, within: Callable[[int], tuple[int, ...] | None],
        value: Callable[[tuple[int, ...]], int], found: tuple[int, ...] | None,
    ) -> tuple[int, ...] | None:  # fmt: skip
        """By bisection the split with the least value, from ``least`` on."""
        if found is not None:
            most = value(found) - 1
        while least <= most:
            middle = (least + most) // 2 if found is not None else most
            better = within(middle)
            if better is not None:
                found, most = better, value(better) - 1
            elif found is None:
                return None
            else:
                least = middle + 1
        return found

    def _all_fit(self, split: Sequence[int]) -> bool:
        spans = [Span(stage, *ends) for stage, ends in enumerate(_ends(split))]
        held = enumerate(self.question.stages_of)
        return all(self.question.holds(rank, [spans[stage] for stage in stages]) for rank, stages in held)

    def _within(self, rank: int, stage: int) -> tuple[int, ...] | None:
        """A split in which no rank and no stage takes longer; None where there is none, or the search gives up."""
        self._dead, before = set(), self._left
        self._left = min(before, NODES // 8)  # one hard question doesn't take what the others need
        spent = self._left
        found = self._from(0, 0, [0] * len(self.question.stages_of), [], (rank, stage))
        if found is None and self._left <= 0:
            self.gave_up = True
        self._left = before - (spent - max(self._left, 0))
        return None if found is None else tuple(span.end - span.begin for span in found)

    def _from(
        self, stage: int, begin: int, loads: list[int], spans: list[Span], most: tuple[int, int]
    ) -> list[Span] | None:
        question = self.question
        if stage == len(question.ranks_of):
            return spans
        key = (stage, begin, tuple(loads) if question.fits is None else tuple(spans))
        self._left -= 1
        if self._left < 0 or key in self._dead or not self._possible(stage, begin, loads, most):
            return None
        for end in self._ends(stage, begin, loads, most):
            mine = [*spans, Span(stage, begin, end)]
            ranks = question.ranks_of[stage]
            if not all(question.holds(r, [mine[s] for s in question.stages_of[r] if s <= stage]) for r in ranks):
                continue
            more = list(loads)
            for rank in ranks:
                more[rank] += question.time(begin, end)
            if (found := self._from(stage + 1, end, more, mine, most)) is not None:
                return found
        self._dead.add(key)
        return None

    def _possible(self, stage: int, begin: int, loads: list[int], most: tuple[int, int]) -> bool:
        """Whether the rest can be within the bounds: by its time, and by its number of layers."""
        question, layers, stages = self.question, len(self.question.times), len(self.question.ranks_of)
        rest, least = question.time(begin, layers), question.least_from[begin]
        left = [sum(s >= stage for s in held) for held in question.stages_of]
        room = [min(most[0] - load, count * most[1]) for load, count in zip(loads, left, strict=True) if count]
        copies = len(question.ranks_of[stage])
        if min(room) < 0 or sum(room) < rest * copies or (stages - stage) * most[1] < rest:
            return False
        number = (
            min(each // least, count * (most[1] // least)) for each, count in zip(room, filter(None, left), strict=True)
        )
        return not least or sum(number) >= (layers - begin) * copies

    def _ends(self, stage: int, begin: int, loads: list[int], most: tuple[int, int]) -> Iterator[int]:
        """Where the stage may end, the likeliest first: an equal share of what its rank should still get."""
        question, layers, stages = self.question, len(self.question.times), len(self.question.ranks_of)
        ranks, before = question.ranks_of[stage], question.before
        room = min(most[1], *(most[0] - loads[rank] for rank in ranks))
        first = layers if stage == stages - 1 else begin + 1
        last = min(layers - (stages - stage - 1), bisect_right(before, before[begin] + room) - 1)
        mean = question.copies * before[-1] // len(question.stages_of)
        share = min((mean - loads[r]) // sum(s >= stage for s in question.stages_of[r]) for r in ranks)
        up = max(first, bisect_right(before, before[begin] + max(share, 0)))
        down = min(last, up - 1)
        while down >= first or up <= last:
            nearer = down >= first and (
                up > last or abs(before[down] - before[begin] - share) <= abs(before[up] - before[begin] - share)
            )
            yield down if nearer else up
            down, up = (down - 1, up) if nearer else (down, up + 1)

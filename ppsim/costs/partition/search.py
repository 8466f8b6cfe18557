"""Splits for ranks that hold several stages: branch and bound over the stages in their order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import ceil

from ppsim.costs.partition.question import Question, Span

NODES, NODES_WITH_MEMORY = 16_000, 4_000
"""Steps of a search before it is given up, about a second; where memory is looked at each takes longer."""


@dataclass
class Search:
    """Branch and bound over the stages in their order; a state is the layers so far and what each rank has of them."""

    question: Question
    gave_up: bool = False
    _left: int = 0
    _share: int = 0
    _dead: set[tuple[int, int, tuple[int | Span, ...]]] = field(default_factory=set)

    def best(self, start: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """From a first split, if any, to the one with the least slowest rank, then the least slowest stage."""
        question, layers = self.question, len(self.question.times)
        copies, whole = question.copies, question.time(0, layers)
        quickest = min(question.pace)
        largest = max(question.time(i, i + 1) for i in range(layers)) * quickest
        unlimited = question.unlimited
        self._left = NODES if question.excess is None else NODES_WITH_MEMORY
        self._share = self._left // 8
        found = start

        def within_rank(most: int) -> tuple[int, ...] | None:
            return self._within(most, unlimited)

        together = sum(Fraction(1, pace) for pace in question.pace)
        least = max(largest, ceil(copies * whole / together))
        found = self._least(least, unlimited, within_rank, lambda split: max(question.loads(split)), found)
        if found is None:
            return None
        rank = max(question.loads(found))
        least = max(largest, ceil(Fraction(whole * quickest, len(question.ranks_of))))
        return self._least(least, unlimited, lambda most: self._within(rank, most), question.slowest, found)

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

    def _within(self, rank: int, stage: int) -> tuple[int, ...] | None:
        """A split in which no rank and no stage takes longer; None where there is none, or the search gives up."""
        self._dead, before = set(), self._left
        self._left = min(before, self._share)  # one hard question doesn't take what the others need
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
        key = (stage, begin, tuple(loads) if question.excess is None else tuple(spans))
        self._left -= 1
        if self._left < 0 or key in self._dead or not self._possible(stage, begin, loads, most):
            return None
        for end in self._ends(stage, begin, loads, most):
            mine, ranks = [*spans, Span(stage, begin, end)], question.ranks_of[stage]
            cost, more = question.cost(stage, begin, end), list(loads)
            for rank in ranks:
                more[rank] += cost
            if cost > most[1] or max(more) > most[0] or not self._fit(mine, ranks):
                continue
            if (found := self._from(stage + 1, end, more, mine, most)) is not None:
                return found
        self._dead.add(key)
        return None

    def _fit(self, spans: list[Span], ranks: Sequence[int]) -> bool:
        """Whether the memory of those ranks holds what there is of theirs so far."""
        question = self.question
        if question.excess is None:
            return True
        return all(question.fits(r, [spans[s] for s in question.stages_of[r] if s < len(spans)]) for r in ranks)

    def _possible(self, stage: int, begin: int, loads: list[int], most: tuple[int, int]) -> bool:
        """Whether the rest can be within the bounds: by its time, and by its number of layers."""
        question, layers, stages = self.question, len(self.question.times), len(self.question.ranks_of)
        rest, least = question.time(begin, layers), question.least_from[begin]
        copies, room, number = len(question.ranks_of[stage]), 0, 0
        for load, held, pace in zip(loads, question.stages_of, question.pace, strict=True):
            if not (left := sum(s >= stage for s in held)):
                continue
            free, largest = (most[0] - load) // pace, most[1] // pace
            if free < 0:
                return False
            room += min(free, left * largest)
            number += min(free // least, left * (largest // least)) if least else 0
        if room < rest * copies or (stages - stage) * most[1] // min(question.pace) < rest:
            return False
        return not least or number >= (layers - begin) * copies

    def _ends(self, stage: int, begin: int, loads: list[int], most: tuple[int, int]) -> Iterator[int]:
        """Where the stage may end, the likeliest first: an equal share of what its rank should still get."""
        question, layers, stages = self.question, len(self.question.times), len(self.question.ranks_of)
        ranks, before = question.ranks_of[stage], question.before
        room = min(min(most[0] - loads[rank], most[1]) // question.pace[rank] for rank in ranks)
        first = layers if stage == stages - 1 else begin + 1
        last = min(layers - (stages - stage - 1), bisect_right(before, before[begin] + room) - 1)
        mean = question.copies * before[-1] / sum(Fraction(1, pace) for pace in question.pace)
        share = min(
            (int(mean) - loads[r]) // question.pace[r] // sum(s >= stage for s in question.stages_of[r]) for r in ranks
        )
        up = max(first, bisect_right(before, before[begin] + max(share, 0)))
        down = min(last, up - 1)
        while down >= first or up <= last:
            nearer = down >= first and (
                up > last or abs(before[down] - before[begin] - share) <= abs(before[up] - before[begin] - share)
            )
            yield down if nearer else up
            down, up = (down - 1, up) if nearer else (down, up + 1)


def climbed(question: Question, start: tuple[int, ...]) -> tuple[int, ...]:
    """From a split, moving layers off the fullest or the slowest rank as long as that helps."""

    def value(split: tuple[int, ...]) -> tuple[int, int, int, int]:
        loads = question.loads(split)
        return sum(question.beyond(split)), max(loads), question.slowest(split), sum(load * load for load in loads)

    best, least = start, value(start)
    while True:
        worst = question.beyond(best) if least[0] else question.loads(best)
        rank = max(range(len(worst)), key=lambda r: worst[r])
        found = min(((value(split), split) for split in _without(best, question.stages_of[rank])), default=None)
        if found is None or found[0] >= least:
            return best
        least, best = found


def _without(split: tuple[int, ...], sources: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The splits with a layer less on one of those stages and one more on another."""
    for source, target in product(sources, range(len(split))):
        if split[source] > 1 and source != target:
            moved = list(split)
            moved[source] -= 1
            moved[target] += 1
            yield tuple(moved)

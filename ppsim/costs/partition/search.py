"""Splits for ranks that hold several stages: branch and bound over the stages in their order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
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
        quickest = min(question.pace)
        largest = max(question.time(i, i + 1) for i in range(layers)) * quickest
        unlimited = question.unlimited
        self._left = NODES if question.excess is None else NODES_WITH_MEMORY
        self._share = self._left // 8
        found = start

        def within_rank(most: int) -> tuple[int, ...] | None:
            return self._within(most, unlimited)

        least = max(largest, ceil(self._mean))
        found = self._least(least, unlimited, within_rank, lambda split: max(question.loads(split)), found)
        if found is None:
            return None
        rank = max(question.loads(found))
        whole = question.time(0, layers) * quickest
        least = max(largest, ceil(Fraction(whole + sum(self._waits), question.stages)))
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
        if stage == question.stages:
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

    @cached_property
    def _waits(self) -> list[int]:
        """The least time that each stage waits for its hops."""
        question, stages = self.question, self.question.stages
        if not question.hops:
            return [0] * stages
        last = len(question.times) - stages + 1  # every stage has a layer: behind the n-th are n to last + n - 1
        least = [min(times[stage : last + stage]) for stage, times in enumerate(question.crossing, 1)]
        return [max(hops) for hops in pairwise([0, *least, 0])]

    @cached_property
    def _still(self) -> list[list[tuple[int, int]]]:
        """Per stage, and of every rank: how many stages from it on the rank holds, and how long these wait at least."""
        rest = [
            [[self._waits[s] for s in held if s >= stage] for held in self.question.stages_of]
            for stage in range(self.question.stages)
        ]
        return [[(len(waits), sum(waits)) for waits in of_ranks] for of_ranks in rest]

    def _possible(self, stage: int, begin: int, loads: list[int], most: tuple[int, int]) -> bool:
        """Whether the rest can be within the bounds: by its time, and by its number of layers."""
        question, layers = self.question, len(self.question.times)
        rest, least, last = question.time(begin, layers), question.least_from[begin], question.time(layers - 1, layers)
        copies, room, number = len(question.ranks_of[stage]), 0, 0
        for rank, (load, pace) in enumerate(zip(loads, question.pace, strict=True)):
            left, waits = self._still[stage][rank]
            if not left:
                continue
            free = (most[0] - load - waits) // pace
            largest = (most[1] - min(self._waits[s] for s in question.stages_of[rank] if s >= stage)) // pace
            if free < 0:
                return False
            room += min(free, left * largest)
            if rank in question.ranks_of[-1]:  # the last layer is here, longer than others if it is a head
                free, number = free - last, number + 1
                number += (
                    min(free // least, (left - 1) * (largest // least) + (largest - last) // least) if least else 0
                )
            elif least:
                number += min(free // least, left * (largest // least))
        if room < rest * copies:
            return False
        return not least or number >= (layers - begin) * copies

    def _ends(self, stage: int, begin: int, loads: list[int], most: tuple[int, int]) -> Iterator[int]:
        """Where the stage may end, the likeliest first: an equal share of what its rank should still get."""
        question, layers, stages = self.question, len(self.question.times), self.question.stages
        ranks, before, wait = question.ranks_of[stage], question.before, self._waits[stage]
        room = min((min(most[0] - loads[rank], most[1]) - wait) // question.pace[rank] for rank in ranks)
        first = layers if stage == stages - 1 else begin + 1
        last = min(layers - (stages - stage - 1), bisect_right(before, before[begin] + max(room, -1)) - 1)
        share = min(self._share_of(rank, stage, loads[rank]) for rank in ranks)
        up = max(first, bisect_right(before, before[begin] + max(share, 0)))
        down = min(last, up - 1)
        while down >= first or up <= last:
            nearer = down >= first and (
                up > last or abs(before[down] - before[begin] - share) <= abs(before[up] - before[begin] - share)
            )
            yield down if nearer else up
            down, up = (down - 1, up) if nearer else (down, up + 1)

    def _share_of(self, rank: int, stage: int, load: int) -> int:
        """The time of a rank's equal share of its stages from one on, for each of them."""
        left, waits = self._still[stage][rank]
        return (int(self._mean) - load - waits) // self.question.pace[rank] // left

    @cached_property
    def _mean(self) -> Fraction:
        """How long ranks are occupied where all are equally long, as if layers could be cut anywhere."""
        question = self.question
        paces, computing = question.pace, Fraction(question.copies * question.before[-1])
        waits = (Fraction(self._still[0][rank][1], pace) for rank, pace in enumerate(paces))
        return sum(waits, computing) / sum((Fraction(1, pace) for pace in paces), Fraction(0))


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

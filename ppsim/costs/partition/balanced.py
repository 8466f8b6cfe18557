"""Layers on stages so that the slowest rank is as fast as can be: dynamic programming, and a search where ranks share.

A microbatch occupies a stage for as long as that computes and waits for the slower of its links (``Question.cost``).
Where every rank holds one stage, the dynamic programme is exact: of all splits into consecutive layers it finds the one
whose slowest stage is fastest, of those the one whose stages compute most equally (the least sum of squares), and of
those the one whose first stages have most, because they wait least. Where ranks hold several stages
(virtual stages, two directions) their sums count: a search then lowers first the slowest rank, then the slowest stage;
it is exact unless it gives up, which ``Balanced.proven`` tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ppsim.costs.partition.layout import SplitError, nearly_equal
from ppsim.costs.partition.question import Question, Span
from ppsim.costs.partition.search import Search, climbed


class Balanced(NamedTuple):
    """A split: layers per stage; ``proven``: nothing is better; ``capped``: every rank's memory holds its stages."""

    split: tuple[int, ...]
    proven: bool
    capped: bool


def balanced(question: Question) -> Balanced:
    """The best split, within the ranks' memory if any is found to be.

    Raises SplitError where there are fewer layers than stages: an empty stage has to be asked for.
    """
    stages, layers = len(question.ranks_of), len(question.times)
    if layers < stages:
        raise SplitError(f"{layers} layers are too few for {stages} stages, each of which needs one")
    free = replace(question, excess=None)
    best = _best(free, [])
    if question.excess is None or not any(question.beyond(best.split)):
        return best
    if question.hopeless:
        return best._replace(capped=False)
    capped = _best(question, [best.split])
    if not capped.capped:
        return Balanced(best.split, best.proven and capped.proven, capped=False)
    return capped


def _best(question: Question, others: Sequence[tuple[int, ...]]) -> Balanced:
    """The best split that is found; ``capped`` tells whether it fits."""
    if all(len(held) == 1 for held in question.stages_of):
        start = by_stage(question)
        return Balanced(start or others[0], True, start is not None)
    even = tuple(nearly_equal(len(question.times), len(question.ranks_of)))
    starts = [even] if question.excess is None else [climbed(question, split) for split in (*others, even)]
    search = Search(question)
    best = search.best(_first(question, starts))
    if search.gave_up and (stages := by_stage(question)) is not None:
        starts = [climbed(question, split) for split in (best or even, stages)]
        best = _first(question, starts)
    return Balanced(best or starts[0], not search.gave_up, best is not None)


def _first(question: Question, splits: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Of these splits that which is best of those that fit; None where none does."""
    fitting = [split for split in splits if not any(question.beyond(split))]
    return min(fitting, key=lambda split: (max(question.loads(split)), question.slowest(split)), default=None)


def by_stage(question: Question) -> tuple[int, ...] | None:
    """The split with the fastest slowest stage, then the most equal one; None where no stages fit the memory."""
    slowest = _programme(question, None)
    return None if slowest is None else _programme(question, question.slowest(slowest))


def _programme(question: Question, most: int | None) -> tuple[int, ...] | None:
    """By dynamic programming over (stage, layers so far) the split with the least slowest stage.

    With ``most``, which no stage may exceed, that with the least sum of squares. Of equals the first stages get more.
    """
    layers, stages = len(question.times), len(question.ranks_of)
    cost: list[int | None] = [0] + [None] * layers
    began: list[list[int]] = []
    for stage in range(stages):
        new: list[int | None] = [None] * (layers + 1)
        starts = [0] * (layers + 1)
        pace = question.stage_pace[stage]
        for end in range(stage + 1, layers - (stages - stage - 1) + 1):
            best: int | None = None
            for begin in range(end - 1, stage - 1, -1):
                time, so_far = question.time(begin, end) * pace, cost[begin]
                limit = most if most is not None else best
                if limit is not None and time > limit:
                    break
                longest = question.cost(stage, begin, end)
                if so_far is None or (most is not None and longest > most):
                    continue
                value = max(so_far, longest) if most is None else so_far + time * time
                if (best is None or value < best) and _fits(question, Span(stage, begin, end)):
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


def _fits(question: Question, span: Span) -> bool:
    return all(question.fits(rank, [span]) for rank in question.ranks_of[span.stage])

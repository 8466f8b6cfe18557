"""Balanced splits: as good as the best of all, never worse than uniform, within memory where that is possible."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppsim.costs.partition.balanced import balanced
from ppsim.costs.partition.layout import SplitError
from ppsim.costs.partition.question import Hop, Question, Span
from ppsim.ops.placement import bidirectional, loop, v_shape

SPEEDS = [Fraction(1, 2), Fraction(1), Fraction(3, 2)]
TIMES = st.one_of(
    st.integers(0, 6).map(Fraction),
    st.fractions(0, 5, max_denominator=4),
)


@st.composite
def questions(draw) -> Question:
    ranks = draw(st.integers(1, 4))
    shapes = [loop(ranks), loop(ranks, 2) if ranks < 4 else loop(ranks), v_shape(min(ranks, 3))]
    placement = draw(st.sampled_from(shapes + ([bidirectional(ranks)] if ranks % 2 == 0 else [])))
    stages = placement.stages
    times = draw(st.lists(TIMES, min_size=stages, max_size=max(stages, min(stages + 4, 9))))
    most = draw(st.one_of(st.none(), st.integers(1, 20)))

    def excess(rank: int, spans: list[Span]) -> int:  # the first ranks hold the most per layer
        return sum(span.end - span.begin for span in spans) * (placement.ranks - rank) - most

    some = st.lists(st.sampled_from(SPEEDS), min_size=placement.ranks, max_size=placement.ranks)
    messages = draw(st.lists(st.integers(0, 4).map(Fraction), min_size=len(times), max_size=len(times)))
    hop = st.builds(Hop, st.sampled_from([Fraction(0), Fraction(1, 3)]), st.sampled_from([Fraction(0), Fraction(1, 2)]))
    hops = draw(st.one_of(st.just([]), st.lists(hop, min_size=stages - 1, max_size=stages - 1)))
    speeds = draw(st.one_of(st.just(()), some))
    return Question(times, placement.stages_of, None if most is None else excess, speeds, messages, hops)


def splits(layers: int, stages: int):
    """Every way to cut layers into stages, none of them empty."""
    for cuts in combinations(range(1, layers), stages - 1):
        yield tuple(b - a for a, b in pairwise((0, *cuts, layers)))


def slowest(question: Question, split) -> tuple[Fraction, Fraction]:
    """How long a microbatch occupies the slowest rank, and the slowest stage: it computes and waits for the slower hop."""
    ends = (0, *accumulate(split))
    computing = [sum(question.times[a:b], Fraction(0)) for a, b in pairwise(ends)]
    crossing = [
        hop.fixed + hop.per_byte * question.messages[end - 1] for hop, end in zip(question.hops, ends[1:], strict=False)
    ]
    speeds = question.speeds or [Fraction(1)] * len(question.stages_of)
    pace = [
        max(1 / speed for held, speed in zip(question.stages_of, speeds, strict=True) if s in held)
        for s in range(len(split))
    ]

    def occupied(stage: int) -> Fraction:
        before = crossing[stage - 1] if stage and crossing else Fraction(0)
        after = crossing[stage] if stage < len(crossing) else Fraction(0)
        return max(computing[stage] * pace[stage] + max(before, after), before + after)

    each = [occupied(stage) for stage in range(len(split))]
    return max(sum((each[s] for s in held), Fraction(0)) for held in question.stages_of), max(each)


def all_fit(question: Question, split) -> bool:
    return not any(question.beyond(split))


@settings(max_examples=100, deadline=None)
@given(questions())
def test_no_split_is_better(question):
    found = balanced(question)
    every = list(splits(len(question.times), len(question.ranks_of)))
    fitting = [split for split in every if all_fit(question, split)]
    assert slowest(question, found.split) == min(slowest(question, split) for split in fitting or every)
    assert found.proven and found.capped == bool(fitting)
    assert not fitting or all_fit(question, found.split)
    assert sum(found.split) == len(question.times) and min(found.split) > 0


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 3), st.data())
def test_never_slower_than_as_many_on_every_stage(ranks, each, chunks, data):
    stages_of = loop(ranks, chunks).stages_of
    times = data.draw(st.lists(TIMES, min_size=ranks * chunks * each, max_size=ranks * chunks * each))
    question = Question(times, stages_of)
    assert slowest(question, balanced(question).split)[0] <= slowest(question, [each] * (ranks * chunks))[0]


def whole(number: int) -> list[Fraction]:
    return [Fraction(1)] * number


@pytest.mark.parametrize(
    ("times", "stages_of", "split", "reason"),
    [
        (whole(61), loop(4).stages_of, (16, 15, 15, 15), "61 = 3 · 15 + 16: the first stage waits least"),
        ([Fraction(1, 10), *whole(61), Fraction(17, 10)], loop(4).stages_of, (16, 16, 16, 15),
         "with embedding and head 62.8 in all: 15.1 | 16 | 16 | 15.7, and 16 can't be less: 4 · 15.7 = 62.8 has no room "
         "for whole layers"),
        (whole(61), loop(4, 2).stages_of, None, "two stages a rank: 61 = 3 · 15 + 16 on ranks"),
        ([*whole(7), Fraction(3)], loop(4).stages_of, (3, 2, 2, 1), "10 in all: the head alone is 3, 3 + 2 + 2 + 3"),
        ([*whole(6), Fraction(2), Fraction(2)], loop(4).stages_of, None, "mtp and head: 10 in all, so at least 3 on one"),
    ],
)  # fmt: skip
def test_splits_that_can_be_told_by_hand(times, stages_of, split, reason):
    question = Question(times, stages_of)
    found = balanced(question)
    if split is not None:
        assert found.split == split, reason
    total = sum(times)
    assert slowest(question, found.split)[0] == (16 if total > 50 else 3), reason


def test_large_cases_are_quick_and_as_good_as_can_be():
    times = [Fraction(1, 10), *whole(126), Fraction(17, 10)]
    question = Question(times, loop(16, 4).stages_of)
    # 127.8 in all. 16 ranks of 8 would have 128 rooms for 126 layers; rank 0 has 8.1 with eight, rank 15 9.7, or 8.7
    # with seven and 7.7 with six: 126 = 15 · 8 + 6, so that rank 0 has its eight.
    assert slowest(question, balanced(question).split)[0] == Fraction(81, 10)


@pytest.mark.parametrize(("ranks", "chunks"), [(8, 2), (8, 5), (16, 5), (4, 5)])
def test_the_search_proves_what_it_finds_for_80_layers_with_ends_over_slow_links(ranks, chunks):
    # Embedding 0.1, 80 layers of 1, head 0.7, a wait of 0.02 for each stage. 80 layers on 8 ranks: either all have 10,
    # the last one and its head 10.7, or one has 11 and more: 10.7 is the least. Likewise with 5 and 20 layers a rank.
    times = [Fraction(1, 10), *whole(80), Fraction(7, 10)]
    stages = ranks * chunks
    hops, messages = [Hop(Fraction(1, 50), Fraction(0))] * (stages - 1), [Fraction(1)] * len(times)
    found = balanced(Question(times, loop(ranks, chunks).stages_of, messages=messages, hops=hops))
    assert found.proven
    load = max(
        sum(sum(times[a:b]) for s, (a, b) in enumerate(pairwise((0, *accumulate(found.split)))) if s % ranks == rank)
        for rank in range(ranks)
    )
    assert load == Fraction(80, ranks) + Fraction(7, 10)


def test_a_cap_moves_layers_to_where_there_is_room():
    def excess(rank, spans):  # 1F1B holds 4, 3, 2, 1 microbatches of each layer
        return sum(s.end - s.begin for s in spans) * (4 - rank) - 12

    found = balanced(Question(whole(16), loop(4).stages_of, excess))
    assert found == ((3, 4, 5, 4), True, True)  # at most 3, 4, 6 and 12; of the splits with 5, the most equal one
    assert balanced(Question(whole(26), loop(4).stages_of, excess)).capped is False  # 25 at most


def test_a_slow_link_moves_the_cut_to_where_little_crosses():
    messages = [Fraction(n) for n in (1, 9, 9, 0)]
    slow = Question(whole(4), loop(2).stages_of, messages=messages, hops=[Hop(Fraction(0), Fraction(1))])
    assert balanced(slow).split == (1, 3)  # 3 by computing; in the middle 9 by sending


def test_a_slow_rank_gets_less():
    assert balanced(Question(whole(9), loop(2).stages_of, speeds=[Fraction(2), Fraction(1)])).split == (6, 3)


def test_fewer_layers_than_stages_are_an_error():
    with pytest.raises(SplitError, match="3 layers are too few for 4 stages"):
        balanced(Question(whole(3), loop(4).stages_of))

"""How Megatron shares a model's layers out to its stages; none is ever lost.

Stages are in the order that the model runs them, stage ``chunk * ranks + rank``: p·v of them for p ranks with v chunks.
Every function gives a count of layers per stage that adds up to the model's, or raises SplitError, whose message names
what works nearest by.
Source: Megatron-LM core 0.17, transformer/transformer_config.py (validation), transformer/transformer_block.py
(get_num_layers_to_build) and transformer/pipeline_parallel_layer_layout.py; megatron/training/arguments.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ppsim.costs.partition.layout import MAX_STAGES, Split, SplitError, layout_of, multiples, nearly_equal

FIRST, LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
LAYOUT = "--pipeline-model-parallel-layout"


Ends = tuple[int | None, int | None]


def even(layers: int, ranks: int, chunks: int, counted: tuple[bool, bool] = (False, False), extra: int = 0) -> Split:
    """The same for every stage, where (the embedding, the loss) may count as a layer."""
    embedding, loss = counted
    stages = ranks * chunks
    whole = layers + embedding + loss
    if whole % stages:
        raise SplitError(_uneven(layers, ranks, chunks, whole - layers))
    counts = [whole // stages] * stages
    counts[0] -= embedding
    counts[-1] -= loss
    return _split(layers, counts, ranks, extra)


def chunks_of(layers: int, ranks: int, per_chunk: int, counted: int = 0) -> int:
    """How many chunks of so many layers a rank has; ``counted`` are the embedding and the loss, as layers."""
    whole = layers + counted
    if whole % ranks:
        raise SplitError(_uneven(layers, ranks, 1, counted))
    per_rank = whole // ranks
    if per_rank % per_chunk:
        near = " or ".join(map(str, _nearest(per_chunk, _divisors(per_rank))))
        raise SplitError(
            f"{per_rank} layers per rank ({_sum(layers, counted)} on {ranks} ranks) aren't a multiple of {per_chunk} "
            f"layers per virtual stage: {per_rank % per_chunk} would be lost on every rank; {near} works"
        )
    return per_rank // per_chunk


def uneven(layers: int, ranks: int, chunks: int, given: Ends, extra: int = 0) -> Split:
    """So many on (the first, the last) rank, the others alike."""
    first, last = given
    if ranks == 1:
        if {first, last} - {None, layers}:
            count = first if first not in (None, layers) else last
            raise SplitError(
                f"one rank holds all {layers} layers; with {count}, {layers - (count or 0)} would be lost; leave "
                f"{FIRST} and {LAST} out"
            )
        return even(layers, 1, chunks, extra=extra)
    ends = [count for count in (first, last) if count is not None]
    middle_ranks, middle = ranks - len(ends), layers - sum(ends)

    def works(middle: int, *ends: int) -> bool:
        if any(count < 1 or count % chunks for count in ends):
            return False
        return middle == 0 if not middle_ranks else middle > 0 and middle % (middle_ranks * chunks) == 0

    if not works(middle, *ends):
        raise SplitError(_unequal_ends(layers, ranks, chunks, given, works))
    each = middle // middle_ranks if middle_ranks else 0
    per_rank = [each if first is None else first, *[each] * (ranks - 2), each if last is None else last]
    return _split(layers, [count // chunks for _ in range(chunks) for count in per_rank], ranks, extra)


def _split(layers: int, counts: list[int], ranks: int, extra: int) -> Split:
    if sum(counts) != layers:
        raise SplitError(f"the stages hold {sum(counts)} layers, the model has {layers}")
    return Split(tuple(counts), (*(0,) * (len(counts) - 1), extra), ranks)


def _uneven(layers: int, ranks: int, chunks: int, counted: int) -> str:
    """Why the layers can't be shared out evenly, and what is nearest."""
    stages = ranks * chunks
    each, lost = divmod(layers + counted, stages)
    by = f"{ranks} ranks" if chunks == 1 else f"{ranks} ranks x {chunks} virtual stages = {stages} stages"
    why = f"{_sum(layers, counted)} on {by}: {stages} x {each} = {stages * each}, {lost} would be lost"
    return f"{why}; what works: {'; '.join(_alternatives(layers, ranks, chunks, counted))}"


def _alternatives(layers: int, ranks: int, chunks: int, counted: int) -> Iterator[str]:
    """What works nearest by: other sizes, then the same layers in another split."""
    stages = ranks * chunks
    others = [n - counted for n in multiples(layers + counted, stages) if n > counted]
    yield f"--num-layers {' or '.join(map(str, others))}"
    if chunks > 1 and (layers + counted) % ranks == 0:
        fitting = _nearest(chunks, _divisors((layers + counted) // ranks))
        yield f"--num-virtual-stages-per-pipeline-rank {' or '.join(map(str, fitting))}"
    if not counted and ranks > 2 and layers % chunks == 0 and (ends := _equal_middle(layers // chunks, ranks)):
        first, middle, last = (count * chunks for count in ends)
        yield f"{FIRST} {first} {LAST} {last} ({ranks - 2} ranks x {middle} + {first} + {last} = {layers})"
    if stages <= min(layers, MAX_STAGES):
        yield f"{LAYOUT} '{layout_of(nearly_equal(layers, stages))}'"


def _equal_middle(layers: int, ranks: int) -> tuple[int, int, int] | None:
    """(first, middle, last) that differ least, the largest being as small as can be."""
    found = []
    for middle in range(max(1, layers // ranks - 1), layers // ranks + 3):
        first = (layers - (ranks - 2) * middle) // 2
        last = layers - (ranks - 2) * middle - first
        if 0 < max(middle, last) <= 2 * min(first, middle):  # what is more unequal is no help
            found.append((max(middle, last), max(middle, last) - min(middle, first), first, middle, last))
    return min(found)[2:] if found else None


def _unequal_ends(layers: int, ranks: int, chunks: int, given: Ends, works: Callable[..., bool]) -> str:
    """Why the first and last rank's layers don't go with the others', and the nearest that do."""
    last = given[1]
    ends = [count for count in given if count is not None]
    rest, between = layers - sum(ends), ranks - len(ends)
    terms = " + ".join(map(str, ends))
    over = f" x {chunks} virtual stages" if chunks > 1 else ""
    why = f"{layers} layers, {terms} on the first or last rank: {rest} are left for {between} other ranks{over}"
    each = between * chunks
    if uneven := [count for count in ends if count % chunks]:
        why = f"{' and '.join(map(str, uneven))} layers on the first or last rank aren't a multiple of v = {chunks}"
    elif each and rest > 0:
        why += f", {each} x {rest // each} = {rest - rest % each}, {rest % each} would be lost"
    fixed, key = (ends[0], LAST) if len(ends) == 2 else (0, FIRST if last is None else LAST)
    if len(ends) == 2 and (fixed < 1 or fixed % chunks):
        most = min(layers, 400)
        both = [(a, b) for a in range(chunks, most, chunks) for b in range(chunks, most, chunks)]
        fitting = [ends_ for ends_ in both if works(layers - sum(ends_), *ends_)]
        nearest = min(fitting, key=lambda pair: (abs(pair[0] - ends[0]) + abs(pair[1] - ends[1]), pair), default=None)
        return why + (f"; what works: {FIRST} {nearest[0]} {LAST} {nearest[1]}" if nearest else "")

    def fits(count: int) -> bool:
        mine = (fixed, count) if len(ends) == 2 else (count,)
        return works(layers - sum(mine), *mine)

    near = [c for c in sorted(range(1, layers + 1), key=lambda c: (abs(c - ends[-1]), c)) if fits(c)][:2]
    stages = ranks * chunks
    what = [f"{key} {' or '.join(map(str, near))}"] if near else []
    what += [f"{LAYOUT} '{layout_of(nearly_equal(layers, stages))}'"] if stages <= min(layers, MAX_STAGES) else []
    return f"{why}; what works: {'; '.join(what) or f'at most {layers} stages'}"


def _sum(layers: int, counted: int) -> str:
    ends = " and the loss or embedding, counted as 1 layer," if counted == 1 else " and 2 for embedding and loss"
    return f"{layers} layers{ends if counted else ''}"


def _nearest(value: int, choices: list[int]) -> list[int]:
    """The nearest choices, one below and one above."""
    below, above = [c for c in choices if c <= value], [c for c in choices if c > value]
    return [*below[-1:], *above[:1]]


def _divisors(value: int) -> list[int]:
    small = [n for n in range(1, int(value**0.5) + 1) if value % n == 0]
    return sorted({*small, *(value // n for n in small)})

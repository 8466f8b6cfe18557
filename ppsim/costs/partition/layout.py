"""Layers on stages as Megatron writes it: ``Et*3|(tt|)*29m|L``, a layout with a stage between each two bars.

Every stage is in the order that the model runs them, stage ``chunk * ranks + rank``: p·v of them for p ranks with v
chunks. No layer is ever lost: a layout adds up to the model's layers, or SplitError says what works nearest by.
Source: Megatron-LM core 0.17, transformer/pipeline_parallel_layer_layout.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from ppsim.errors import PpsimError, shown

MAX_STAGES = 100_000
KINDS = {"E": "the embedding", "t": "a transformer layer", "m": "a multi-token prediction layer", "L": "the loss"}


class SplitError(PpsimError):
    """The layers can't be shared out as asked."""


class Split(NamedTuple):
    """Transformer layers and multi-token prediction layers of each stage."""

    layers: tuple[int, ...]
    extra: tuple[int, ...]
    ranks: int

    @property
    def chunks(self) -> int:
        """Stages per rank (v)."""
        return len(self.layers) // self.ranks


def from_layout(
    text: str, layers: int, ranks: int, extra: int = 0, keys: tuple[str, str] = ("--num-layers", "--mtp-num-layers")
) -> Split:
    """As a layout says: stages between bars, ``*n`` repeats, commas mean nothing.

    ``keys``: what messages call ``layers`` and ``extra``, the transformer and multi-token prediction layers that are
    due. Raises SplitError for a layout that Megatron wouldn't build.
    """
    stages = _unrolled(text).split("|")
    if len(stages) % ranks:
        raise SplitError(
            f"the layout has {len(stages)} stages, which isn't a multiple of the {ranks} ranks; "
            f"{' or '.join(map(str, multiples(len(stages), ranks)))} stages work"
        )
    flat = "".join(stages)
    for kind, due, what in (("t", layers, keys[0]), ("m", extra, keys[1])):
        if flat.count(kind) != due:
            raise SplitError(
                f"the layout has {flat.count(kind)} layers '{kind}', {what} is {due}; both must be the same, "
                + (f"as in '{layout_of(nearly_equal(layers, len(stages)))}'" if kind == "t" else "or none is built")
            )
    for kind, place, wrong in (("E", "first", flat[:1] != "E"), ("L", "last", flat[-1:] != "L")):
        if wrong or flat.count(kind) != 1:
            raise SplitError(f"the layout needs '{kind}' ({KINDS[kind]}) once, and as its {place}")
    holders = [stage for stage, held in enumerate(stages) if "m" in held]
    if extra and ("m" in flat[: flat.rindex("t")] or len(holders) > 1 or holders[0] < len(stages) - ranks):
        raise SplitError(
            "the layout needs its 'm' (multi-token prediction) after all 't', in one stage, in a rank's last chunk"
        )
    return Split(tuple(s.count("t") for s in stages), tuple(s.count("m") for s in stages), ranks)


def nearly_equal(layers: int, stages: int) -> list[int]:
    """As equal as can be; the stages that also hold the embedding and the loss are the last to get one more."""
    each, more = divmod(layers, stages)
    longer = {*[*range(1, stages - 1), 0][:more]}
    return [each + (stage in longer) for stage in range(stages)]


def layout_of(counts: Sequence[int], extra: Sequence[int] = ()) -> str:
    """The layout of so many transformer layers, and multi-token prediction layers, per stage."""
    held = [_repeated("t", t) + _repeated("m", m) for t, m in zip(counts, extra or [0] * len(counts), strict=True)]
    groups = [(f"{stage}|", len(list(run))) for stage, run in groupby(held[:-1])]
    return "E" + "".join(stage if times == 1 else f"({stage})*{times}" for stage, times in groups) + held[-1] + "L"


def multiples(value: int, step: int) -> list[int]:
    """The nearest multiples, one below and one above."""
    below = value // step * step
    return [count for count in (below, below + step) if count]


def _repeated(kind: str, count: int) -> str:
    return kind * count if count < 3 else f"{kind}*{count}"


def _unrolled(text: str) -> str:
    """The layout with its repetitions written out."""
    bare = text.replace(",", "")
    if wrong := re.search(r"[^EtmL|()*0-9]", bare):
        kinds = ", ".join(f"{kind} ({what})" for kind, what in KINDS.items())
        raise SplitError(f"{shown(wrong[0])} in the layout is none of {kinds}, | between stages, or (…)*n and x*n")
    repeats = re.compile(r"\(([^()]+)\)\*([0-9]+)|([EtmL|])\*([0-9]+)")
    for pattern in (re.compile(r"\(([^()]+)\)\*([0-9]+)"), re.compile(r"([EtmL|])\*([0-9]+)")):
        length = len(bare)
        for found in pattern.finditer(bare):
            times = int(found[2]) if len(found[2]) < 8 else MAX_STAGES * 100
            length += len(found[1]) * times
        if length > MAX_STAGES * 100:
            raise SplitError(f"the layout has more than {MAX_STAGES * 100:,} layers and bars")
        bare = pattern.sub(lambda found: found[1] * int(found[2]), bare)
    if wrong := re.search(r"[^EtmL|]+", bare):
        hint = "; brackets can't be nested" if repeats.search(text) else ""
        raise SplitError(
            f"{shown(wrong[0])} in the layout repeats nothing; write (…)*n or x*n, as in 'E(t*3|)*7tL'{hint}"
        )
    return bare

"""Arguments that were given and do nothing: those that Megatron passes over in this combination, and old spellings."""

from __future__ import annotations

from collections.abc import Iterator

from ppsim.costs.partition.layout import Split
from ppsim.formats.megatron.arguments import Arguments
from ppsim.formats.megatron.layers import FIRST, LAST
from ppsim.formats.megatron.options import (
    CHUNKS,
    EMBEDDING,
    GRANULARITY,
    GROUP,
    LOSS,
    METHOD,
    OLD,
    PER_CHUNK,
    RECOMPUTED_LAYERS,
)  # fmt: skip
from ppsim.formats.megatron.settings import Sizes

P2P = ("--overlap-p2p-communication", "--no-overlap-p2p-communication", "--overlap-p2p-communication-warmup-flush")


def without_effect(arguments: Arguments, sizes: Sizes, split: Split) -> Iterator[tuple[str, str]]:
    """(argument, why it changes nothing)."""
    given = arguments.has
    idle: list[tuple[str, bool, str]] = []
    if split.chunks == 1:
        idle += [(name, True, "it matters with virtual stages only") for name in (GROUP, *P2P)]
        idle += [(name, True, "each rank gets a single stage anyway") for name in (PER_CHUNK, CHUNKS)]
    else:
        idle.append((P2P[0], not given(P2P[1]), "it is the default with virtual stages"))
        idle.append((GROUP, arguments.number(GROUP) == sizes.ranks, "it is the default, the pipeline's ranks"))
        idle.append((P2P[2], given(P2P[1]), "without overlap there is none in the warm-up, either"))
    if sizes.ranks == 1:
        idle += [(name, True, "one rank holds all layers") for name in (FIRST, LAST, EMBEDDING, LOSS)]
    idle.append(("--sequence-parallel", sizes.tensor == 1, "Megatron turns it off where the tensor size is 1"))
    idle.append(("--overlap-grad-reduce", sizes.data == 1, "one replica has no gradients to reduce"))
    full = given(GRANULARITY) or given("--checkpoint-activations") or _old(arguments, METHOD)
    for name in (METHOD, RECOMPUTED_LAYERS):
        idle.append((name, not full, f"nothing is recomputed without {GRANULARITY} full"))
    idle.append((GRANULARITY, given("--recompute-activations"), "--recompute-activations sets it to selective"))
    yield from ((name, why) for name, really, why in idle if really and given(name))


def old_spellings(arguments: Arguments) -> Iterator[str]:
    """Names that today's Megatron doesn't take, and what they were read as."""
    for name, given in arguments.given.items():
        if given.spelt in OLD:
            yield f"{given.spelt} (line {given.line}) is an old name; it is read as {name}"
        elif name == "--checkpoint-activations":
            yield f"{name} (line {given.line}) is an old name; it is read as {GRANULARITY} full {METHOD} uniform"


def _old(arguments: Arguments, name: str) -> bool:
    return arguments.has(name) and arguments.given[name].spelt in OLD

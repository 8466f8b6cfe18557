"""What a user should know of arguments: which say what, which do nothing, and what isn't known."""

from __future__ import annotations

from collections.abc import Iterator

from ppsim.costs.partition.layout import Split
from ppsim.formats._launch import Sizes, Sources
from ppsim.formats.megatron.arguments import Arguments
from ppsim.formats.megatron.layers import FIRST, LAST, LAYOUT
from ppsim.formats.megatron.options import (
    CHUNKS,
    COMBINED,
    CONTEXT,
    DUALPIPE,
    DUALPIPEV,
    EMBEDDING,
    EXPERT,
    GRANULARITY,
    GROUP,
    LAYERS,
    LOSS,
    METHOD,
    NOT_MODELLED,
    OLD,
    PARTITION,
    PENDING,
    PER_CHUNK,
    PER_LAYER,
    PIPELINE,
    RECOMPUTED_LAYERS,
    SEQUENCE_SPLITS,
    TENSOR,
    V_MEMORY,
    V_SCHEDULE,
    ZB_H1,
    ZERO_BUBBLE,
)

P2P = ("--overlap-p2p-communication", "--no-overlap-p2p-communication", "--overlap-p2p-communication-warmup-flush")


def head(arguments: Arguments, split: Split) -> list[str]:
    """How the layers are shared out."""
    names = (LAYERS, FIRST, LAST, EMBEDDING, LOSS, LAYOUT, PARTITION)
    said = [arguments.place(name) for name in names if arguments.has(name)]
    return [f"Layers per stage: {' '.join(map(str, split.layers))}", f"  ({'; '.join(said)})"]


def sources(arguments: Arguments, sizes: Sizes) -> Sources:
    """Which argument each value is from."""

    def of(*names: str) -> str:
        return ", ".join(arguments.place(name) for name in names if arguments.has(name)) or "Megatron's default"

    whole = "world size unknown: one replica assumed"
    if sizes.world is not None:
        whole = f"world size {sizes.world} / (tensor {sizes.tensor} x pipeline {sizes.ranks} x context {sizes.context})"
    sequence = of("--seq-length")
    if sizes.context > 1:
        sequence += f"; / context {sizes.context}"
    if sizes.tensor > 1 and arguments.has("--sequence-parallel"):
        sequence += f"; / tensor {sizes.tensor} (--sequence-parallel)"
    asked = [n for n in (V_SCHEDULE, V_MEMORY, ZERO_BUBBLE, ZB_H1, DUALPIPE, DUALPIPEV) if arguments.has(n)]
    return {
        ("schedule",): of(*asked) if asked else "no virtual stages",
        ("schedule", "name"): of(*asked, SEQUENCE_SPLITS),
        ("schedule", "max_in_flight"): of(PENDING),
        ("schedule", "virtual_stages"): of(PER_CHUNK, CHUNKS, LAYOUT),
        ("schedule", "group"): of(GROUP),
        ("schedule", "combined"): of(COMBINED),
        ("pipeline", "ranks"): of(PIPELINE),
        ("pipeline", "microbatches"): "global batch / (micro-batch size x data parallel)",
        ("pipeline", "micro_batch_size"): of("--micro-batch-size"),
        ("pipeline", "global_batch"): of("--global-batch-size"),
        ("pipeline", "data_parallel"): whole,
        ("pipeline", "recompute"): of(GRANULARITY, METHOD, RECOMPUTED_LAYERS, "--checkpoint-activations"),
        ("pipeline", "recompute_when"): "inside the backward, once its gradient is there",
        ("costs", "recompute"): of(RECOMPUTED_LAYERS),
        ("costs", "message", "micro_batch"): of("--micro-batch-size"),
        ("costs", "message", "sequence"): sequence,
        ("costs", "message", "hidden"): of("--hidden-size"),
        ("costs", "message", "dtype"): of("--bf16", "--fp16"),
        ("runtime",): "as Megatron sends and syncs",
        ("runtime", "p2p"): of("--no-overlap-p2p-communication"),
        ("runtime", "grad_sync"): of("--overlap-grad-reduce"),
    }


def notes(arguments: Arguments, sizes: Sizes, split: Split, costed: bool = False) -> Iterator[str]:
    """What was read, what is missing, what has no effect; ``costed``: costs follow from the model."""
    stages = f"{sizes.ranks} ranks" + (f" x {split.chunks} virtual stages" if split.chunks > 1 else "")
    shares = f"{min(split.layers)} to {max(split.layers)}" if len(set(split.layers)) > 1 else f"{split.layers[0]}"
    yield (
        f"read: {sum(split.layers)} layers on {stages} ({shares} per stage), {sizes.microbatches} microbatches of "
        f"{sizes.micro_batch}; tensor {sizes.tensor}, context {sizes.context}, expert {sizes.expert}, data {sizes.data}"
    )
    if sizes.world is None:
        yield "the world size isn't in the file: one replica is assumed; give --world-size"
    yield from _old_spellings(arguments)
    if needless := [missing for missing in arguments.missing if missing.line >= 0]:
        listed = (f"{missing.text} (line {missing.line}, {missing.why})" for missing in needless)
        yield f"not known, and not needed: {'; '.join(listed)}"
    idle = dict(_without_effect(arguments, sizes, split))
    for name, why in idle.items():
        yield f"no effect: {arguments.place(name)}: {why}"
    if not costed:
        yield from _per_layer(arguments, sizes, split)
    for name, what in NOT_MODELLED.items():
        if name not in idle and (arguments.has(name) or name in arguments.others):
            yield f"{name}: {what}"
    if others := [name for name in arguments.others if name not in NOT_MODELLED and name not in PER_LAYER]:
        yield f"no meaning for a pipeline's schedule: {', '.join(others)}"
    for name, line in arguments.strange.items():
        yield f"warning: {name} (line {line}) isn't known; if it changes the pipeline, the experiment doesn't show it"


def _per_layer(arguments: Arguments, sizes: Sizes, split: Split) -> Iterator[str]:
    """What a time per layer can't tell, or holds already."""
    if any(split.extra):
        yield "each multi-token prediction layer takes the time of one layer"
    if arguments.has(EMBEDDING) or arguments.has(LOSS) or arguments.has(LAYOUT):
        yield "embedding and loss take no time of their own: add theirs to the first and last value of costs"
    inside = [n for n, size in ((TENSOR, sizes.tensor), (CONTEXT, sizes.context), (EXPERT, sizes.expert)) if size > 1]
    if inside:
        yield f"{', '.join(inside)}: what that takes and saves is part of the time per layer"
    for name, what in PER_LAYER.items():
        if arguments.mentions(name):
            yield f"{name}: {what}"


def _without_effect(arguments: Arguments, sizes: Sizes, split: Split) -> Iterator[tuple[str, str]]:
    """(argument, why it changes nothing): what Megatron passes over in this combination."""
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
    idle.append((V_MEMORY, not given(V_SCHEDULE), f"it matters with {V_SCHEDULE} only"))
    idle.append((PENDING, not given(ZERO_BUBBLE) and not given(V_SCHEDULE), f"it matters with {ZERO_BUBBLE} only"))
    idle.append(("--sequence-parallel", sizes.tensor == 1, "Megatron turns it off where the tensor size is 1"))
    idle.append(("--overlap-grad-reduce", sizes.data == 1, "one replica has no gradients to reduce"))
    full = given(GRANULARITY) or given("--checkpoint-activations") or _old(arguments, METHOD)
    for name in (METHOD, RECOMPUTED_LAYERS):
        idle.append((name, not full, f"nothing is recomputed without {GRANULARITY} full"))
    idle.append((GRANULARITY, given("--recompute-activations"), "--recompute-activations sets it to selective"))
    yield from ((name, why) for name, really, why in idle if really and given(name))


def _old_spellings(arguments: Arguments) -> Iterator[str]:
    """Names that today's Megatron doesn't take, and what they were read as."""
    for name, given in arguments.given.items():
        if given.spelt in OLD:
            yield f"{given.spelt} (line {given.line}) is an old name; it is read as {name}"
        elif name == "--checkpoint-activations":
            yield f"{name} (line {given.line}) is an old name; it is read as {GRANULARITY} full {METHOD} uniform"


def _old(arguments: Arguments, name: str) -> bool:
    return arguments.has(name) and arguments.given[name].spelt in OLD

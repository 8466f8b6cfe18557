"""Megatron's arguments -> an experiment: ``ppsim import megatron``. A script is parsed, never run.

What Megatron would refuse is refused here, too, with what works nearest by. Where each value comes from stands beside
it; what isn't known, has no effect or is assumed is told in notes.
Source: see ``settings`` and ``layers``; the order of ranks is that of Megatron-LM core,
parallel_state.py (tp-cp-ep-dp-pp).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from ppsim.config import yamlfile
from ppsim.config.experiment import Experiment
from ppsim.costs.partition.layout import Split
from ppsim.errors import ConfigError, FormatError, printable
from ppsim.formats.base import file_format
from ppsim.formats.megatron.arguments import Arguments
from ppsim.formats.megatron.effects import old_spellings, without_effect
from ppsim.formats.megatron.launches import Load, read
from ppsim.formats.megatron.layers import FIRST, LAST, LAYOUT
from ppsim.formats.megatron.options import (
    CHUNKS,
    COMBINED,
    CONTEXT,
    EMBEDDING,
    GRANULARITY,
    GROUP,
    LAUNCHER,
    LOSS,
    METHOD,
    MODEL,
    NOT_MODELLED,
    PER_CHUNK,
    PIPELINE,
    RECOMPUTED_LAYERS,
    TENSOR,
)  # fmt: skip
from ppsim.formats.megatron.settings import Reader, Sizes
from ppsim.formats.shell.lines import Line
from ppsim.units import show

FORWARD = Fraction(1, 1000)
"""Seconds of a layer's forward where none is given; a backward takes twice its forward."""
Comments = dict[tuple[str | int, ...], str]


class Imported(NamedTuple):
    """An experiment as YAML text, and what a user should know beside it."""

    text: str
    notes: list[str]


@file_format("megatron", does="launch", what="Megatron-LM's arguments, in a launch script or a list")
def convert(
    text: str,
    label: str,
    fixed: Mapping[str, str] | None = None,
    world_size: int | None = None,
    forward: Fraction | None = None,
    backward: Fraction | None = None,
    load: Load | None = None,
) -> Imported:
    """The experiment that a launch script's arguments describe.

    ``fixed`` gives values of the script's variables, ``forward`` and ``backward`` are a layer's seconds.
    Raises FormatError, a line for each mistake as ``label:line: what``.
    """
    idle = frozenset((*MODEL, *(LAUNCHER if world_size is not None else ())))
    arguments = read(text, label, fixed or {}, load, idle)
    label = printable(label)
    reader = Reader(arguments, world_size)
    measured = forward is not None or backward is not None
    if forward is None:
        forward = FORWARD if backward is None else backward / 2
    backward = 2 * forward if backward is None else backward
    settings = reader.settings(forward, backward) if arguments.readable else None
    sizes, split = reader.sizes, reader.split
    if settings is None or sizes is None or split is None:
        mistakes = sorted(dict.fromkeys(arguments.mistakes))
        raise FormatError("\n".join(f"{_place(label, m.line)}: {m.text}" for m in mistakes))
    try:
        Experiment(**settings)
    except ConfigError as error:
        raise FormatError("\n".join(f"{label}: {line}" for line in str(error).splitlines())) from None
    comments = _comments(arguments, sizes, (forward, backward))
    body = yamlfile.dump(settings, {place: text for place, text in comments.items() if _is_value(settings, place)})
    hint = "".join(f"# {line}\n" for line in _cluster_hint(sizes, reader.per_node))
    notes = [*_notes(arguments, sizes, split), *reader.said, *arguments.notes]
    notes.append(
        "memory isn't derived from arguments: give costs.activation, weights and optimizer_state; without weights the "
        "sum of gradients takes no time"
    )
    if not measured:
        notes.append(
            f"times are relative: {show(forward, 'time')} and {show(backward, 'time')} per layer are assumed; give "
            "measured ones by --layer-forward and --layer-backward"
        )
    return Imported(f"{_head(label, arguments, split)}{body}{hint}", notes)


def _place(label: str, line: int) -> str:
    """As in 'gpt.sh:12'."""
    if isinstance(line, Line):
        return f"{printable(line.label)}:{int(line)}"
    return f"{label}:{line}" if line else label


def _head(label: str, arguments: Arguments, split: Split) -> str:
    """Where the experiment is from, and how the layers are shared out."""
    said = [arguments.place(n) for n in ("--num-layers", FIRST, LAST, EMBEDDING, LOSS, LAYOUT) if arguments.has(n)]
    counts = " ".join(map(str, split.layers))
    shares = f"# Layers per stage: {counts}\n#   ({'; '.join(said)})\n"
    return f"# From the arguments of {label}, by `ppsim import megatron`.\n{shares}"


def _is_value(settings: Mapping[str, Any], place: tuple[str | int, ...]) -> bool:
    """Whether a value, not a mapping, stands there."""
    value: Any = settings
    for key in place:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value is not None and not isinstance(value, Mapping)


def _comments(arguments: Arguments, sizes: Sizes, times: tuple[Fraction, Fraction]) -> Comments:
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
    forward, backward = (f"{show(time, 'time')} per layer" for time in times)
    return {
        ("schedule",): "no virtual stages",
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
        ("costs", "forward"): forward,
        ("costs", "backward"): backward,
        ("costs", "recompute"): of(RECOMPUTED_LAYERS),
        ("costs", "message", "micro_batch"): of("--micro-batch-size"),
        ("costs", "message", "sequence"): sequence,
        ("costs", "message", "hidden"): of("--hidden-size"),
        ("costs", "message", "dtype"): of("--bf16", "--fp16"),
        ("runtime",): "as Megatron sends and syncs",
        ("runtime", "p2p"): of("--no-overlap-p2p-communication"),
        ("runtime", "grad_sync"): of("--overlap-grad-reduce"),
    }


def _cluster_hint(sizes: Sizes, per_node: int | None) -> Iterator[str]:
    """How the pipeline's ranks would sit on nodes, as a line that can be taken as it is."""
    apart = sizes.tensor * sizes.context * sizes.data
    together = max(1, (per_node or apart) // apart)
    links = "intra_node: nvlink3, inter_node: ib-hdr" if together > 1 else "inter_node: ib-hdr"
    yield "Without a cluster links are free and memory has no limit. Megatron's order of GPUs (tp-cp-ep-dp-pp) puts"
    yield f"the pipeline's neighbours {apart} apart, so with nodes of 8 or so a cluster may look like this:"
    yield f"cluster: {{device: a100-80gb, ranks_per_node: {together}, {links}}}"


def _notes(arguments: Arguments, sizes: Sizes, split: Split) -> Iterator[str]:
    """What was read, what is missing, what has no effect."""
    stages = f"{sizes.ranks} ranks" + (f" x {split.chunks} virtual stages" if split.chunks > 1 else "")
    shares = f"{min(split.layers)} to {max(split.layers)}" if len(set(split.layers)) > 1 else f"{split.layers[0]}"
    yield (
        f"read: {sum(split.layers)} layers on {stages} ({shares} per stage), {sizes.microbatches} microbatches of "
        f"{sizes.micro_batch}; tensor {sizes.tensor}, context {sizes.context}, expert {sizes.expert}, data {sizes.data}"
    )
    if sizes.world is None:
        yield "the world size isn't in the file: one replica is assumed; give --world-size"
    yield from old_spellings(arguments)
    needless = [missing for missing in arguments.missing if missing.line >= 0]
    if needless:
        yield "not known, and not needed: " + "; ".join(
            f"{missing.text} (line {missing.line}, {missing.why})" for missing in needless
        )
    idle = dict(without_effect(arguments, sizes, split))
    for name, why in idle.items():
        yield f"no effect: {arguments.place(name)}: {why}"
    if any(split.extra):
        yield "each multi-token prediction layer takes the time of one layer"
    if arguments.has(EMBEDDING) or arguments.has(LOSS) or arguments.has(LAYOUT):
        yield "embedding and loss take no time of their own: add theirs to the first and last value of costs"
    inside = [name for name, size in ((TENSOR, sizes.tensor), (CONTEXT, sizes.context)) if size > 1]
    inside += ["--expert-model-parallel-size"] if sizes.expert > 1 else []
    if inside:
        yield f"{_listed(inside)}: what that takes and saves is part of the time per layer"
    for name, what in NOT_MODELLED.items():
        if name not in idle and (arguments.has(name) or name in arguments.others):
            yield f"{name}: {what}"
    if others := [name for name in arguments.others if name not in NOT_MODELLED]:
        yield f"no meaning for a pipeline's schedule: {_listed(others)}"
    for name, line in arguments.strange.items():
        yield f"warning: {name} (line {line}) isn't known; if it changes the pipeline, the experiment doesn't show it"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)

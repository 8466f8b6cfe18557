"""Megatron's arguments -> an experiment's settings, with Megatron's own checks and what works where they refuse.

What an argument does that an experiment can't say is told in ``said``.
Source: megatron/training/arguments.py; Megatron-LM core 0.17, pipeline_parallel/schedules.py (group sizes, combined
1F1B), transformer/transformer_config.py and transformer_block.py (recomputation).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

from ppsim.costs.partition.layout import MAX_STAGES, Split, SplitError, from_layout, multiples
from ppsim.formats.megatron import layers as sharing
from ppsim.formats.megatron.arguments import Arguments, Mistake
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
    PER_CHUNK,
    PIPELINE,
    RECOMPUTED_LAYERS,
    TENSOR,
)  # fmt: skip
from ppsim.schedules.interleaved_1f1b import default_group
from ppsim.units import show


class Sizes(NamedTuple):
    """How the model and its batch are cut; ``world`` is None where the file doesn't tell it."""

    ranks: int
    tensor: int
    context: int
    expert: int
    world: int | None
    data: int
    micro_batch: int
    global_batch: int
    microbatches: int


class Reader:
    """Arguments on their way to settings; what is wrong becomes a mistake of theirs."""

    def __init__(self, arguments: Arguments, world_size: int | None) -> None:
        self.arguments, self.world_size = arguments, world_size
        self.sizes: Sizes | None = None
        self.split: Split | None = None
        self.said: list[str] = []
        self.per_node: int | None = None
        """GPUs of a node, where the file tells."""

    def settings(self, forward: Fraction, backward: Fraction) -> dict[str, Any] | None:
        """The experiment for a layer's seconds; None, and mistakes, where there is none."""
        sizes, split = self.sizes, self.split = self._sizes(), self._split()
        held = [] if split is None else [t + m for t, m in zip(split.layers, split.extra, strict=True)]
        recomputed = self._recomputed(held)
        if self.arguments.has("--bf16") and self.arguments.has("--fp16"):
            self.arguments.wrong("--fp16", "contradicts --bf16; Megatron takes only one of them")
        message = None if sizes is None or sizes.ranks == 1 else self._message(sizes)
        if sizes is None or split is None:
            return None
        costs: dict[str, Any] = {
            "kind": "given",
            "per": "stage",
            "forward": _each(show(count * forward, "time") for count in held),
            "backward": _each(show(count * backward, "time") for count in held),
        }
        pipeline: dict[str, Any] = {
            "ranks": sizes.ranks,
            "microbatches": sizes.microbatches,
            "micro_batch_size": sizes.micro_batch,
            "global_batch": sizes.global_batch,
            "data_parallel": sizes.data,
        }
        if recomputed is not None:
            pipeline |= {"recompute": "full", "recompute_when": "late"}
            if recomputed != held:
                costs["recompute"] = _each(show(count * forward, "time") for count in recomputed)
        if message is not None:
            costs["message"] = message
        schedule, runtime = self._schedule(sizes, split), self._runtime(sizes, split)
        settings = {"schedule": schedule, "pipeline": pipeline, "costs": costs, "runtime": runtime}
        return None if self.arguments.mistakes else settings

    def _number(self, name: str, default: int | None = None) -> int | None:
        """A value that is needed: where it depends on something missing, that is a mistake."""
        if name in self.arguments.unknown:
            line, missing = self.arguments.unknown[name]
            give = f"--set {missing.name}=…" if missing.name else "the number in its place"
            other = " or --world-size" if name in ("--nproc-per-node", "--nnodes") else ""
            text = f"{name} depends on {missing.text}, {missing.why}; give {give}{other}"
            self.arguments.mistakes.append(Mistake(line, text))
            return None
        return self.arguments.number(name) if self.arguments.has(name) else default

    def _required(self, name: str) -> int | None:
        if not self.arguments.names(name):
            self.arguments.mistakes.append(Mistake(0, f"{name} is missing"))
        return self._number(name)

    def _sizes(self) -> Sizes | None:
        ranks, tensor, context = self._number(PIPELINE, 1), self._number(TENSOR, 1), self._number(CONTEXT, 1)
        expert, micro = self._number("--expert-model-parallel-size", 1), self._required("--micro-batch-size")
        given = self._number("--global-batch-size")
        world = self._world()
        if ranks is None or tensor is None or context is None or expert is None or micro is None:
            return None
        model = tensor * ranks * context
        if world is not None and world % model:
            text = (
                f"world size {world} isn't a multiple of tensor {tensor} x pipeline {ranks} x context {context} = "
                f"{model} GPUs; {' or '.join(map(str, multiples(world, model)))} GPUs work"
            )
            if self.per_node and model % self.per_node == 0:
                text += f", as by --nnodes {model // self.per_node}"
            self.arguments.mistakes.append(Mistake(self.arguments.line("--nproc-per-node"), text))
            return None
        data = 1 if world is None else world // model
        total = micro * data if given is None else given
        needed = {"--global-batch-size", *(LAUNCHER if self.world_size is None else ())}
        if any(self.arguments.names(name) and not self.arguments.number(name) for name in needed):
            return None
        if total % (micro * data):
            near = " or ".join(map(str, multiples(total, micro * data)))
            self.arguments.wrong(
                "--global-batch-size",
                f"isn't a multiple of micro-batch size {micro} x {data} data-parallel replicas = {micro * data}; "
                f"{near} works",
            )
            return None
        return Sizes(ranks, tensor, context, expert, world, data, micro, total, total // (micro * data))

    def _world(self) -> int | None:
        """GPUs in all, or None where the file doesn't tell."""
        if self.world_size is not None:
            return self.world_size
        self.per_node = self._number("--nproc-per-node")
        nodes = self._number("--nnodes", 1)
        return None if self.per_node is None or nodes is None else self.per_node * nodes

    def _split(self) -> Split | None:
        arguments = self.arguments
        layers, ranks = self._required("--num-layers"), self._number(PIPELINE, 1)
        extra = self._number("--mtp-num-layers", 0)
        ways = [name for name in (PER_CHUNK, CHUNKS, LAYOUT) if arguments.names(name)]
        ends = [name for name in (FIRST, LAST) if arguments.names(name)]
        counted = [name for name in (EMBEDDING, LOSS) if arguments.has(name)]
        clashes = [ways[:2], [LAYOUT, *ends, *counted] if LAYOUT in ways else [], [*ends, *counted] if ends else []]
        if PER_CHUNK in ways and ends:
            arguments.wrong(PER_CHUNK, f"contradicts {ends[0]}; give {CHUNKS} in its place")
        for names in clashes:
            if len(names) > 1 and names != ends:
                arguments.wrong(names[0], f"contradicts {names[1]}; Megatron takes only one of them")
        per_chunk, chunks = self._number(PER_CHUNK), self._number(CHUNKS)
        first, last = self._number(FIRST), self._number(LAST)
        if LAYOUT in arguments.unknown:
            self._number(LAYOUT)
        if layers is None or ranks is None or extra is None:
            return None
        if {*ways, *ends, PIPELINE, "--mtp-num-layers"} & {*arguments.spoilt, *arguments.unknown}:
            return None
        blamed = LAYOUT if LAYOUT in ways else ends[0] if ends else (ways or ["--num-layers"])[0]
        if layers > MAX_STAGES or ranks * (chunks or 1) > MAX_STAGES:
            arguments.wrong(blamed, f"more than {MAX_STAGES:,} layers or stages")
            return None
        try:
            if LAYOUT in ways:
                return from_layout(arguments.given[LAYOUT].value.strip("'\""), layers, ranks, extra)
            if ends:
                return sharing.uneven(layers, ranks, chunks or 1, first, last, extra)
            if per_chunk is not None:
                chunks = sharing.chunks_of(layers, ranks, per_chunk, len(counted))
            return sharing.even(layers, ranks, chunks or 1, EMBEDDING in counted, LOSS in counted, extra)
        except SplitError as error:
            arguments.wrong(blamed, str(error))
            return None

    def _schedule(self, sizes: Sizes, split: Split) -> Any:
        arguments, combined = self.arguments, self.arguments.has(COMBINED)
        if combined and sizes.expert == 1:
            arguments.wrong(COMBINED, "needs --expert-model-parallel-size of 2 or more: it hides the experts' exchange")
        if arguments.has("--delay-wgrad-compute") and not combined:
            arguments.wrong(
                "--delay-wgrad-compute", f"needs {COMBINED}, inside whose pairs it moves the weight gradients"
            )
        if split.chunks == 1:
            if combined and sizes.ranks > 1:
                arguments.wrong(COMBINED, f"needs virtual stages with a pipeline, as by {CHUNKS} 2")
            elif combined:
                self.said.append(f"{COMBINED}: one rank without virtual stages is simulated as 1f1b, unfused")
            return "1f1b"
        ways = [name for name in (PER_CHUNK, CHUNKS, LAYOUT) if arguments.has(name)]
        least = 3 if arguments.has("--no-overlap-p2p-communication") else 2
        if sizes.ranks < least:
            why = " with --no-overlap-p2p-communication" if least == 3 else ""
            arguments.wrong(ways[0], f"virtual stages need a pipeline of {least} or more ranks{why}, not {sizes.ranks}")
            return None
        group = self._number(GROUP, sizes.ranks)
        if group is not None:
            self._check_group(group, sizes)
        schedule: dict[str, Any] = {"name": "interleaved_1f1b", "virtual_stages": split.chunks}
        if group != default_group(sizes.ranks, sizes.microbatches):
            schedule["group"] = group
        return {**schedule, **({"combined": True} if combined else {})}

    def _check_group(self, group: int, sizes: Sizes) -> None:
        """Megatron's own rules: p <= group <= m, and no last group smaller than p."""
        p, m = sizes.ranks, sizes.microbatches
        blamed = GROUP if self.arguments.has(GROUP) else "--global-batch-size"
        if m < p:
            per = sizes.micro_batch * sizes.data
            self.arguments.wrong(
                "--global-batch-size",
                f"makes {m} microbatches, and with virtual stages Megatron needs at least the {p} of the pipeline's "
                f"ranks: a global batch of {p * per} or more",
            )
        elif not p <= group <= m:
            self.arguments.wrong(
                blamed, f"a group of {group} microbatches is not from {p} (ranks) to {m} (microbatches)"
            )
        elif 0 < m % group < p:
            near = " or ".join(str(n * sizes.micro_batch * sizes.data) for n in multiples(m, group))
            self.arguments.wrong(
                blamed,
                f"{m} microbatches in groups of {group} leave a last group of {m % group}, fewer than the {p} ranks, "
                f"which Megatron refuses; {GROUP} {default_group(p, m)} works, or a global batch of {near}",
            )

    def _recomputed(self, held: Sequence[int]) -> list[int] | None:
        """Layers of each stage whose forward is run again; None where none is."""
        arguments = self.arguments
        if arguments.has("--checkpoint-activations") or (
            arguments.has(METHOD) and arguments.given[METHOD].spelt.startswith("--act")
        ):
            granularity: str | None = "full"
        elif arguments.has("--recompute-activations"):
            granularity = "selective"
        else:
            if GRANULARITY in arguments.unknown:
                self._number(GRANULARITY)
            granularity = arguments.given[GRANULARITY].value if arguments.has(GRANULARITY) else None
        if granularity == "selective":
            for name in (METHOD, RECOMPUTED_LAYERS):
                if arguments.has(name):
                    arguments.wrong(name, "contradicts selective recomputation; leave it out")
            self.said.append(
                "selective recomputation has no key of its own: measure the backward with it, its time is part of that"
            )
        if granularity != "full":
            return None
        if METHOD in arguments.unknown:
            self._number(METHOD)
        method = arguments.given.get(METHOD)
        if not (arguments.names(METHOD) or arguments.has("--checkpoint-activations") or arguments.has(COMBINED)):
            arguments.wrong(GRANULARITY, "full needs --recompute-method uniform or block")
        if method is None or method.value == "uniform":
            return [*held]
        count = self._number(RECOMPUTED_LAYERS, 1) or 0
        if any(layers > count for layers in held):
            self.said.append(
                f"--recompute-method block: {count} layers of each stage are run again, as costs.recompute says; what "
                "their activations save in memory is yours to give (costs.activation, costs.stage_input)"
            )
        return [min(count, layers) for layers in held]

    def _message(self, sizes: Sizes) -> dict[str, Any] | None:
        arguments = self.arguments
        sequence, hidden = self._number("--seq-length"), self._number("--hidden-size")
        absent = [n for n in ("--seq-length", "--hidden-size") if not (arguments.has(n) or n in arguments.unknown)]
        if absent:
            self.said.append(f"{' and '.join(absent)} not given: messages between the stages are left out")
        if sequence is None or hidden is None:
            return None
        cut = sizes.context * (sizes.tensor if arguments.has("--sequence-parallel") else 1)
        halves = 2 * sizes.context if sizes.context > 1 else 1
        if sequence % (step := lcm(cut, halves)):
            why = f"context {sizes.context}, tensor {sizes.tensor}; with context parallelism in two halves"
            near = " or ".join(map(str, multiples(sequence, step)))
            arguments.wrong(
                "--seq-length", f"{sequence} can't be cut evenly ({why}): a multiple of {step} is due; {near} works"
            )
        return {"micro_batch": sizes.micro_batch, "sequence": sequence // cut, "hidden": hidden, "dtype": self._dtype()}

    def _dtype(self) -> str:
        return next((kind for kind in ("bf16", "fp16") if self.arguments.has(f"--{kind}")), "fp32")

    def _runtime(self, sizes: Sizes, split: Split) -> Any:
        arguments, changed = self.arguments, {}
        if split.chunks > 1 and arguments.has("--no-overlap-p2p-communication"):
            if arguments.has(COMBINED):
                self.said.append("--no-overlap-p2p-communication isn't modelled together with the combined form")
            else:
                changed["p2p"] = "fused"
        if sizes.data > 1 and arguments.has("--overlap-grad-reduce"):
            changed["grad_sync"] = "overlapped"
        return {"preset": "megatron", **changed} if changed else "megatron"


def _each(values: Iterable[str]) -> str | list[str]:
    """One value where all are the same, or a value per stage."""
    listed = list(values)
    return listed[0] if len(set(listed)) == 1 else listed

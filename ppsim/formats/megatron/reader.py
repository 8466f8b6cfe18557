"""Megatron's arguments -> settings, with Megatron's own checks and what works where they refuse.

What an argument does that an experiment can't say is told in notes.
Source: megatron/training/arguments.py; Megatron-LM core 0.17, parallel_state.py (worlds, the order of ranks
tp-cp-ep-dp-pp), transformer/transformer_config.py and transformer_block.py (recomputation).
"""

from __future__ import annotations

from math import lcm
from typing import Any

from ppsim.costs.partition.layout import Split, layout_of, multiples
from ppsim.errors import FormatError, printable
from ppsim.formats._launch import File, Settings, Sizes
from ppsim.formats.megatron.arguments import Arguments
from ppsim.formats.megatron.launches import read
from ppsim.formats.megatron.model import costs_of, model_of, selective
from ppsim.formats.megatron.notes import head, notes, sources
from ppsim.formats.megatron.options import COMBINED, LAUNCHER, MODEL
from ppsim.formats.megatron.schedule import HALVES, Scheduled


class Reader(Scheduled):
    """Arguments on their way to settings. A relative of Megatron's changes what it does otherwise."""

    launcher = "megatron"

    marks: tuple[str, ...] = ()
    """Arguments by one of which a relative is known."""

    def settings(self) -> Settings | None:
        """The settings; None, and mistakes, where there are none."""
        sizes, split = self.sizes(), self.split()
        held = [] if split is None else [t + m for t, m in zip(split.layers, split.extra, strict=True)]
        recomputed = self.recomputed(held)
        if self.arguments.has("--bf16") and self.arguments.has("--fp16"):
            self.arguments.wrong("--fp16", "contradicts --bf16; Megatron takes only one of them")
        message = None if sizes is None or sizes.ranks == 1 else self.message(sizes)
        if sizes is None or split is None:
            return None
        schedule, runtime = self.schedule(sizes, split), self.runtime(sizes, split)
        model, modules = model_of(self.arguments, self.file.costed), selective(self.arguments)
        if self.file.vocabulary is not None:
            model["vocabulary"] = self.file.vocabulary
        if self.arguments.mistakes:
            return None
        name = schedule if isinstance(schedule, str) else schedule["name"]
        return Settings(
            launcher=self.launcher,
            sizes=sizes,
            layers=tuple(held),
            schedule=schedule,
            runtime=runtime,
            message=message,
            recomputed=recomputed,
            halves=name in HALVES,
            selective=modules,
            model=model,
            costs=costs_of(self.arguments, sizes, self.dtype()),
            contents=layout_of(split.layers, split.extra),
            sources=sources(self.arguments, sizes),
            head=head(self.arguments, split),
            notes=[*notes(self.arguments, sizes, split, self.file.costed), *self.said, *self.arguments.notes],
            apart=sizes.tensor * sizes.context * sizes.data,
            per_node=self.per_node,
        )

    def message(self, sizes: Sizes) -> dict[str, Any] | None:
        """What a stage sends on for one microbatch."""
        arguments = self.arguments
        sequence, hidden = self.number("--seq-length"), self.number("--hidden-size")
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
        return {"micro_batch": sizes.micro_batch, "sequence": sequence // cut, "hidden": hidden, "dtype": self.dtype()}

    def dtype(self) -> str:
        """Of weights and activations."""
        return next((kind for kind in ("bf16", "fp16") if self.arguments.has(f"--{kind}")), "fp32")

    def runtime(self, sizes: Sizes, split: Split) -> Any:
        """How Megatron sends and syncs."""
        arguments, changed = self.arguments, {}
        if split.chunks > 1 and arguments.has("--no-overlap-p2p-communication") and not self._asked():
            if arguments.has(COMBINED):
                self.said.append("--no-overlap-p2p-communication isn't modelled together with the combined form")
            else:
                changed["p2p"] = "fused"
        if sizes.data > 1 and arguments.has("--overlap-grad-reduce"):
            changed["grad_sync"] = "overlapped"
        return {"preset": "megatron", **changed} if changed else "megatron"


def settings_of(file: File, kind: type[Reader] | None = None) -> Settings:
    """The settings of a script; ``kind`` is the relative of Megatron's that it runs (default: by its arguments).

    Raises FormatError, a line for each mistake.
    """
    idle = frozenset((*(() if file.costed else MODEL), *(LAUNCHER if file.world_size is not None else ())))
    return settled(read(file, idle), file, kind)


def settled(arguments: Arguments, file: File, kind: type[Reader] | None = None) -> Settings:
    """The settings of arguments. Raises FormatError, a line for each mistake."""
    kinds = [kind] if kind is not None else Reader.__subclasses__()
    bears = [k for k in kinds if any(arguments.names(name) or name in arguments.others for name in k.marks)]
    relative = bears[0] if bears else kind or Reader
    reader = relative(arguments, file)
    settings = reader.settings() if arguments.readable else None
    if settings is None:
        label = printable(file.label)
        raise FormatError("\n".join(m.shown(label) for m in sorted(dict.fromkeys(arguments.mistakes))))
    return settings

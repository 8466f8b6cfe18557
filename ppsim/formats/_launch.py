"""What launch files say of a pipeline, in whatever words: ``Settings``. Every reader fills one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ppsim.errors import printable
from ppsim.formats.shell.lines import Line

Load = Callable[[str], str | None]
"""Reads a file that a launch file names, seen from that; None where there is none."""
Sources = Mapping[tuple[str | int, ...], str]
"""Where the value at a place of the experiment comes from."""


class File(NamedTuple):
    """A launch file and what a user tells beside it."""

    text: str
    label: str
    """Its path, as it was given."""
    fixed: Mapping[str, str] = {}
    """Values of its variables or keys."""
    world_size: int | None = None
    load: Load = lambda _: None
    costed: bool = False
    """Whether costs will be made of the model, so that its sizes matter."""
    vocabulary: int | None = None
    """Words of the tokenizer, where the file doesn't tell."""


class Mistake(NamedTuple):
    """What is wrong, and the line (0: of the file as a whole)."""

    line: int
    text: str

    def shown(self, label: str) -> str:
        """As in 'gpt.sh:12: what'."""
        if isinstance(self.line, Line):
            return f"{printable(self.line.label)}:{int(self.line)}: {self.text}"
        return f"{label}:{self.line}: {self.text}" if self.line else f"{label}: {self.text}"


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


@dataclass(frozen=True)
class Settings:
    """What an experiment is made of, but for the costs of a layer."""

    launcher: str
    sizes: Sizes
    layers: tuple[int, ...]
    """Layers of each stage, in the model's order."""
    schedule: Any
    """As in an experiment."""
    runtime: Any
    message: Mapping[str, Any] | None = None
    """What a stage sends on, as in ``costs.message``; None where it isn't known."""
    recomputed: Sequence[int] | None = None
    """Layers of each stage whose forward is run again; None where none is."""
    selective: Sequence[str] | None = None
    """Modules that selective recomputation runs again; None where there is none."""
    halves: bool = False
    """Whether the schedule runs the halves of a backward apart."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """What the file says of the model, in the words of ``costs.model``."""
    costs: Mapping[str, Any] = field(default_factory=dict)
    """What it says beside of how the model runs, in the words of ``costs`` (``tensor_parallel``, ``attention`` …)."""
    contents: str = ""
    """What the stages hold, as a layout: ``Et*3|t*4|t*4L``."""
    sources: Sources = field(default_factory=dict)
    head: Sequence[str] = ()
    """Lines that stand above the experiment."""
    notes: Sequence[str] = ()
    apart: int | None = None
    """How many GPUs a rank's neighbours in the pipeline are apart; None where that isn't known."""
    per_node: int | None = None
    """GPUs of a node, where the file tells."""

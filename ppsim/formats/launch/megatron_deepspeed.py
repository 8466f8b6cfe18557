"""Megatron-DeepSpeed: Megatron's arguments, DeepSpeed's pipeline, its way to share layers out, and its JSON file.

Source: Megatron-DeepSpeed (deepspeedai and bigscience), megatron/arguments.py and model/gpt_model.py; DeepSpeed 0.17,
runtime/pipe/module.py (partition methods), runtime/utils.py (partition_uniform, partition_balanced), runtime/config.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ppsim.costs.partition.layout import Split, SplitError
from ppsim.errors import shown
from ppsim.formats._launch import File, Settings, Sizes
from ppsim.formats.launch.base import launcher
from ppsim.formats.megatron.layers import FIRST, LAST, LAYOUT
from ppsim.formats.megatron.options import (
    CHUNKS,
    CONFIG,
    EMBEDDING,
    GLOBAL,
    LOSS,
    METHOD,
    MICRO,
    NO_PIPELINE,
    PARTITION,
    PER_CHUNK,
    PIPELINE,
    ULYSSES,
)
from ppsim.formats.megatron.reader import Reader, settings_of

LAYER, EMBED = "ParallelTransformerLayerPipe", "EmbeddingPipe"
MEGATRONS = (PER_CHUNK, CHUNKS, FIRST, LAST, LAYOUT, EMBEDDING, LOSS)
"""Arguments of Megatron's own pipeline."""


@launcher(
    "megatron-deepspeed",
    "Megatron-DeepSpeed's arguments and its DeepSpeed file",
    marks=(r"--deepspeed_config\b", r"--deepspeed\b", PARTITION, NO_PIPELINE, r"--zero-stage\b"),
)
def read(file: File) -> Settings:
    """Its settings; Megatron's own where a script doesn't run DeepSpeed's pipeline."""
    return settings_of(file)


class DeepSpeed(Reader):
    """What DeepSpeed's pipeline does otherwise."""

    launcher = "megatron-deepspeed"
    marks = ("--deepspeed", PARTITION, CONFIG)

    def context(self) -> int | None:
        """Ulysses' sequence parallelism takes as many GPUs as context parallelism would."""
        own, ulysses = super().context(), self.number(ULYSSES, 1)
        return None if own is None or ulysses is None else own * ulysses

    def sizes(self) -> Sizes | None:
        """As the arguments say, and the DeepSpeed file must not say otherwise."""
        self._config = self._read_config()
        sizes = super().sizes()
        if sizes is not None:
            self._check_config(sizes)
        return sizes

    def global_batch(self, at_once: int, given: int | None) -> int | None:
        """The argument's, or that of the DeepSpeed file."""
        steps, total = self._config.get("gradient_accumulation_steps"), self._config.get("train_batch_size")
        if given is None and isinstance(total, int):
            return total
        return at_once * steps if given is None and isinstance(steps, int) else super().global_batch(at_once, given)

    def _read_config(self) -> dict[str, Any]:
        """What the DeepSpeed file says, where it is there."""
        path = self.arguments.text(CONFIG)
        if not path:
            return {}
        text = self.arguments.files.get(path) or self.file.load(path)
        if text is None:
            self.said.append(f"{CONFIG} {shown(path)[1:-1]} isn't there: the arguments alone are read")
            return {}
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            self.said.append(f"{CONFIG} {shown(path)[1:-1]} isn't JSON: the arguments alone are read")
            return {}
        return found if isinstance(found, dict) else {}

    def _check_config(self, sizes: Sizes) -> None:
        stages = self._config.get("pipeline")
        said = {
            ("train_micro_batch_size_per_gpu", MICRO): sizes.micro_batch,
            ("train_batch_size", GLOBAL): sizes.global_batch,
            ("gradient_accumulation_steps", GLOBAL): sizes.microbatches,
        }
        if sizes.world is None:
            said = {key: value for key, value in said.items() if key[1] == MICRO}
        for (key, name), value in said.items():
            own = self._config.get(key)
            if isinstance(own, int) and own != value:
                what = "microbatches are made by the arguments" if key.startswith("gradient") else f"{name} is"
                self.arguments.wrong(name, f"the DeepSpeed file says {key}: {own}, {what} {value}; both must agree")
        if isinstance(stages, dict) and isinstance(stages.get("stages"), int) and stages["stages"] != sizes.ranks:
            self.arguments.wrong(PIPELINE, f"the DeepSpeed file says {stages['stages']} stages, this is {sizes.ranks}")

    def shares(self, layers: int, ranks: int, extra: int) -> Split:
        """As DeepSpeed cuts the list of a model's parts."""
        for name in MEGATRONS:
            if self.arguments.has(name):
                raise SplitError(f"DeepSpeed's pipeline doesn't know {name}; leave it out")
        if self.arguments.has(NO_PIPELINE):
            return Split((layers,), (extra,), 1)
        if PARTITION in self.arguments.unknown:
            self.number(PARTITION)
        method = self.arguments.text(PARTITION).strip("'\"")
        parts = _parts(layers, bool(method))
        ends = self._ends(method or "type:transformer", parts, ranks)
        held = [sum(part == LAYER for part in parts[a:b]) for a, b in pairwise(ends)]
        if len(set(held)) > 1:
            self.said.append(f"layers are shared out as DeepSpeed 0.17 does: {' '.join(map(str, held))}")
        return Split(tuple(held), (0,) * ranks, ranks)

    def _ends(self, method: str, parts: Sequence[str], ranks: int) -> list[int]:
        """Where the stages begin, and the end."""
        if method.lower() == "uniform":
            return _uniform(len(parts), ranks)
        if method.lower() == "parameters":
            return _balanced([self._parameters(part) for part in parts], ranks)
        kind, _, pattern = method.partition(":")
        if kind.lower() != "type" or not pattern:
            raise SplitError(f"'{method}': uniform, parameters or type:… is due, as in 'type:transformer|embedding'")
        try:
            weights = [int(bool(re.search(pattern, part, re.IGNORECASE))) for part in parts]
        except re.error as error:
            raise SplitError(f"'{pattern}' is no regular expression: {error}") from None
        if not any(weights):
            raise SplitError(f"'{pattern}' names none of the model's parts: {', '.join(dict.fromkeys(parts))}")
        return _balanced(weights, ranks)

    def _parameters(self, part: str) -> int:
        """Parameters of a part on one GPU of its tensor parallel group, biases included."""
        hidden, tensor = self.number("--hidden-size") or 0, self.number("--tensor-model-parallel-size", 1) or 1
        if part == LAYER:
            given = self.arguments.text("--ffn-hidden-size")
            ffn = int(given) if given.isdigit() else 4 * hidden
            matrices = 4 * hidden * hidden + (3 if self.arguments.has("--swiglu") else 2) * hidden * ffn
            return (matrices + 3 * hidden + ffn) // tensor + 6 * hidden
        if part == EMBED:
            vocabulary = self.arguments.text("--vocab-size") or self.arguments.text("--padded-vocab-size")
            if not vocabulary.isdigit():
                raise SplitError("parameters: the vocabulary isn't in the file, so that embeddings can't be weighed; "
                                 "give --vocab-size")  # fmt: skip
            return int(vocabulary) * hidden // tensor
        return 2 * hidden if part == "LayerNorm" else 0

    def runtime(self, sizes: Sizes, split: Split) -> Any:
        """Sends are on the stream of the computations, so that these wait; gradients are summed at the end."""
        return {"preset": "ideal", "send": "blocking"} if split.ranks > 1 else "ideal"

    def recomputed(self, held: Sequence[int]) -> list[int] | None:
        """Recomputation by blocks is not DeepSpeed's: it is passed over."""
        if self.arguments.text(METHOD) == "block":
            self.said.append(f"no effect: {METHOD} block: DeepSpeed's pipeline passes it over")
            return None
        return super().recomputed(held)


def _parts(layers: int, helpers: bool) -> list[str]:
    """A model's parts in order; ``helpers``: with the functions between that bigscience's fork has."""
    function = ["lambda"] if helpers else []
    undo = ["undo"] if helpers else []
    return ["_to_float16", EMBED, *function, *[LAYER] * layers, *undo, "LayerNorm", EMBED, "float16_to_fp32"]


def _uniform(items: int, parts: int) -> list[int]:
    """So many items each, one more for the first where they don't come out even."""
    each, more = divmod(items, parts)
    return [part * each + min(part, more) for part in range(parts + 1)]


def _balanced(weights: Sequence[int], parts: int) -> list[int]:
    """Where consecutive items are cut so that the heaviest and the lightest part differ least (the last such cuts)."""
    count = len(weights)
    if count <= parts:
        return _uniform(count, parts)
    before = np.concatenate(([0], np.cumsum(weights, dtype=float)))
    most, least = np.full((parts + 1, count + 1), np.inf), np.full((parts + 1, count + 1), np.inf)
    cut = np.zeros((parts + 1, count + 1), dtype=int)
    most[0, 0] = 0
    for part in range(1, parts + 1):
        for end in range(part, count + 1):
            own = before[end] - before[:end]
            heavy, light = np.maximum(most[part - 1, :end], own), np.minimum(least[part - 1, :end], own)
            apart = heavy - light
            at = end - 1 - int(np.argmin(apart[::-1]))
            most[part, end], least[part, end], cut[part, end] = heavy[at], light[at], at
    ends = [count]
    for part in range(parts, 0, -1):
        ends.append(int(cut[part, ends[-1]]))
    return ends[::-1]

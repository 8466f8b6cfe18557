"""PyTorch's torchtitan: a TOML file with ``[parallelism]``; layers are shared out as its pipeline_parallel.py does.

Source: pytorch/torchtitan, torchtitan/distributed/pipeline_parallel.py (_generate_llm_fqn_per_model_part), its
config's fields and defaults, and torchtitan/models/*/__init__.py (layers of a flavor).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from itertools import groupby, pairwise
from math import ceil
from typing import Any

from ppsim.costs.partition.layout import layout_of
from ppsim.errors import FormatError, did_you_mean, printable, shown
from ppsim.formats._launch import File, Settings, Sizes, Sources
from ppsim.formats.launch.base import launcher

SCHEDULES: Mapping[str, tuple[str, int]] = {
    "1F1B": ("1f1b", 1), "GPipe": ("gpipe", 1), "Interleaved1F1B": ("interleaved_1f1b", 2),
    "LoopedBFS": ("looped_bfs", 2), "InterleavedZeroBubble": ("interleaved_zb", 2), "ZBVZeroBubble": ("zbv", 2),
    "DualPipeV": ("dualpipev", 2),
}  # fmt: skip
"""PyTorch's schedules: ours, and their stages per rank where layers_per_stage doesn't say."""
_V_SHAPED, _HALVES = ("zbv", "dualpipev"), ("zbv", "dualpipev", "interleaved_zb")
LAYERS: Mapping[str, Mapping[str, int]] = {
    "llama3": {"debugmodel": 6, "8B": 32, "70B": 80, "405B": 126},
    "deepseek_v3": {"debugmodel": 6, "16B": 27, "236B": 60, "671B": 61},
    "qwen3": {"0.6B": 28, "1.7B": 28, "4B": 36, "8B": 36, "14B": 40, "32B": 64, "30B-A3B": 48, "235B-A22B": 94},
    "llama4": {"debugmodel": 6, "17bx16e": 48, "17bx128e": 48},
}
"""Layers of a model's flavors."""
HIDDEN: Mapping[tuple[str, str], int] = {
    ("llama3", "8B"): 4096, ("llama3", "70B"): 8192, ("llama3", "405B"): 16384, ("deepseek_v3", "16B"): 2048,
    ("deepseek_v3", "236B"): 5120, ("deepseek_v3", "671B"): 7168,
}  # fmt: skip
"""Hidden sizes of those that are most used."""


@launcher(
    "torchtitan",
    "torchtitan's settings, a TOML file",
    marks=(r"^\[parallelism\]", r"pipeline_parallel_degree", r"^\[model\]", r"^\[training\]"),
    suffixes=(".toml",),
)
def read(file: File) -> Settings:
    """Its settings; values of ``--set`` are keys of tables, as in training.seq_len=4096, or model.layers."""
    return _Titan(file).settings()


class _Titan:
    """A file's tables on their way to settings; what is wrong is gathered."""

    def __init__(self, file: File) -> None:
        self.file, self.label, self.mistakes = file, printable(file.label), list[str]()
        self.notes: list[str] = []
        try:
            self.tables: dict[str, Any] = tomllib.loads(file.text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise FormatError(f"{self.label}: not TOML: {printable(str(error))}") from None
        for name, text in file.fixed.items():
            table, dot, key = name.partition(".")
            if not dot:
                self.mistakes.append(f"{self.label}: --set {printable(name)}: write TABLE.KEY, as training.seq_len")
                continue
            if not isinstance(self.tables.setdefault(table, {}), dict):
                self.tables[table] = {}
            self.tables[table][key] = int(text) if re.fullmatch(r"-?\d+", text) else text

    def get(self, table: str, key: str, default: Any = None) -> Any:
        """A value, or its default."""
        found = self.tables.get(table)
        return found.get(key, default) if isinstance(found, dict) else default

    def whole(self, table: str, key: str, default: int, least: int = 1) -> int:
        """A whole number; what is none is a mistake."""
        value = self.get(table, key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.mistakes.append(
                f"{self.where(key)}: {key}: {shown(value)}, where a whole number from {least} on is due"
            )
            return default
        return value

    def where(self, key: str) -> str:
        """As in 'train.toml:12'."""
        lines = self.file.text.splitlines()
        at = next((i for i, line in enumerate(lines, 1) if re.match(rf"\s*{re.escape(key)}\s*=", line)), 0)
        return f"{self.label}:{at}" if at else self.label

    def wrong(self, key: str, text: str) -> None:
        """Remember a mistake at a key."""
        self.mistakes.append(f"{self.where(key)}: {key}: {text}")

    def settings(self) -> Settings:
        """The settings. Raises FormatError, a line for each mistake."""
        sizes = self._sizes()
        schedule, per_rank = self._schedule(sizes)
        layers = self._layers_of_stages(sizes.ranks, per_rank)
        virtual = len(layers) // sizes.ranks
        if schedule == "file":
            made: Any = {"name": "file", "path": self.get("parallelism", "pipeline_parallel_schedule_csv")}
        elif virtual > 2 or (virtual == 2 and schedule not in _V_SHAPED):
            made = {"name": schedule, "virtual_stages": virtual}
        else:
            made = schedule
        recomputed = self._recomputed(layers)
        if self.mistakes:
            raise FormatError("\n".join(dict.fromkeys(self.mistakes)))
        return Settings(
            launcher="torchtitan",
            sizes=sizes,
            layers=layers,
            schedule=made,
            runtime="pytorch",
            recomputed=recomputed,
            message=self._message(sizes),
            halves=schedule in _HALVES,
            contents=layout_of(layers),
            sources=_SOURCES,
            head=[f"Layers per stage: {' '.join(map(str, layers))}"],
            notes=[self._read(sizes, layers), *self.notes],
            apart=sizes.tensor * sizes.context * sizes.data,
            model={"layers": sum(layers)},
        )

    def _sizes(self) -> Sizes:
        ranks, tensor = (self.whole("parallelism", f"{kind}_parallel_degree", 1) for kind in ("pipeline", "tensor"))
        context, expert = (self.whole("parallelism", f"{kind}_parallel_degree", 1) for kind in ("context", "expert"))
        replicas = self.whole("parallelism", "data_parallel_replicate_degree", 1)
        shards = self.whole("parallelism", "data_parallel_shard_degree", -1, -1)
        model, world = ranks * tensor * context, self.file.world_size
        if world is not None and (world % (model * replicas) or (shards > 0 and world != model * replicas * shards)):
            need = f"pipeline {ranks} x tensor {tensor} x context {context} x replicas {replicas}"
            need += f" x shards {shards}" if shards > 0 else ""
            self.mistakes.append(
                f"{self.label}: world size {world} doesn't fit {need} = {model * replicas * max(1, shards)} GPUs"
            )
        if shards < 1:
            shards = 1 if world is None else max(1, world // (model * replicas))
            if world is None:
                self.notes.append("the world size isn't in the file: one shard is assumed; give --world-size")
        data = replicas * shards
        local = self.whole("training", "local_batch_size", self.get("training", "batch_size", 8))
        micro = self.whole("parallelism", "pipeline_parallel_microbatch_size", 1)
        if ranks > 1 and local % micro:
            self.wrong("pipeline_parallel_microbatch_size", f"local_batch_size {local} isn't a multiple of {micro}")
        count = max(1, local // micro) if ranks > 1 else 1
        size = micro if ranks > 1 else local
        total = self.whole("training", "global_batch_size", -1, -1)
        if total > 0 and total != size * count * data:
            if total % (size * count * data):
                self.wrong(
                    "global_batch_size", f"{total} isn't a multiple of {local} x {data} replicas = {local * data}"
                )
            self.notes.append(
                f"a step of {total} samples is {total // max(1, local * data)} runs of the pipeline, each of {count} "
                "microbatches; one is simulated"
            )
        return Sizes(ranks, tensor, context, expert, world, data, size, size * count * data, count)

    def _schedule(self, sizes: Sizes) -> tuple[str, int]:
        """Our schedule, and its stages per rank by default."""
        if self.get("parallelism", "pipeline_parallel_schedule_csv"):
            return "file", 1 if self.get("parallelism", "pipeline_parallel_schedule", "") in ("1F1B", "GPipe") else 2
        name = str(self.get("parallelism", "pipeline_parallel_schedule", "1F1B"))
        known = {key.lower(): key for key in SCHEDULES}
        if name.lower() not in known:
            hint = did_you_mean(name, SCHEDULES) or ";"
            self.wrong(
                "pipeline_parallel_schedule", f"{shown(name)} isn't modelled{hint} known: {', '.join(SCHEDULES)}"
            )
            return "1f1b", 1
        ours, per_rank = SCHEDULES[known[name.lower()]]
        return (ours, per_rank) if sizes.ranks > 1 else ("1f1b", 1)

    def _layers(self) -> int:
        name, flavor = str(self.get("model", "name", "llama3")), str(self.get("model", "flavor", "debugmodel"))
        own = self.get("model", "layers", self.get("model", "n_layers"))
        layers = own if isinstance(own, int) else LAYERS.get(name, {}).get(flavor)
        if layers is None:
            self.wrong("flavor", f"the layers of {shown(name)} {shown(flavor)} aren't known; give --set model.layers=…")
        return layers or 1

    def _layers_of_stages(self, ranks: int, per_rank: int) -> tuple[int, ...]:
        """Layers of each stage: as they are named, or spread with the embedding and the head counted."""
        named = self.get("parallelism", "module_fqns_per_model_part")
        if isinstance(named, list) and named:
            if len(named) % ranks:
                self.wrong("module_fqns_per_model_part", f"{len(named)} parts aren't a multiple of {ranks} ranks")
            return tuple(sum(str(module).startswith("layers.") for module in part) for part in named)
        points = self.get("parallelism", "pipeline_parallel_split_points")
        if isinstance(points, list) and points:
            ends = [int(found[1]) for point in points if (found := re.fullmatch(r"layers\.(\d+)", str(point)))]
            if len(ends) == len(points):
                edges = [0, *ends, self._layers()]
                return tuple(b - a for a, b in pairwise(edges))
            self.wrong("pipeline_parallel_split_points", "points that aren't layers.N aren't read")
        layers = self._layers()
        first = self.whole("parallelism", "pipeline_parallel_first_stage_less_layers", 1, 0)
        last = self.whole("parallelism", "pipeline_parallel_last_stage_less_layers", 1, 0)
        each = self.get("parallelism", "pipeline_parallel_layers_per_stage")
        stages = ranks * per_rank
        if isinstance(each, int) and each > 0:
            stages = ceil((layers + first + last) / each)
            if stages % ranks or (stages // ranks == 1) != (per_rank == 1):
                kind = "one stage" if per_rank == 1 else "two or more stages"
                self.wrong(
                    "pipeline_parallel_layers_per_stage",
                    f"{layers} layers, {first} + {last} for embedding and head, make {stages} stages of {each}; this "
                    f"schedule needs {kind} on each of {ranks} ranks",
                )
                return (1,) * (ranks * per_rank)
        return self._spread(layers, stages, first, last)

    def _spread(self, layers: int, stages: int, first: int, last: int) -> tuple[int, ...]:
        if stages == 1:
            return (layers,)
        each, more = divmod(layers + first + last, stages)
        counts = [each + (stage < more) for stage in range(stages)]
        counts[0] -= first
        counts[-1] -= last
        if min(each - first, each - last, each - 1) < 0:
            self.wrong("pipeline_parallel_degree", f"{layers} layers are too few for {stages} stages")
        return tuple(max(0, count) for count in counts)

    def _recomputed(self, layers: tuple[int, ...]) -> tuple[int, ...] | None:
        mode = str(self.get("activation_checkpoint", "mode", "selective"))
        if mode == "selective":
            self.notes.append("selective activation checkpointing: measure the backward with it, it is part of that")
        elif mode not in ("full", "none"):
            self.wrong("mode", f"{shown(mode)} isn't modelled; none, selective and full are")
        return layers if mode == "full" else None

    def _message(self, sizes: Sizes) -> dict[str, Any] | None:
        key = (str(self.get("model", "name", "llama3")), str(self.get("model", "flavor", "debugmodel")))
        hidden = self.get("model", "hidden", HIDDEN.get(key))
        if sizes.ranks == 1 or not isinstance(hidden, int):
            if sizes.ranks > 1:
                self.notes.append("messages are left out: the hidden size isn't known; give --set model.hidden=…")
            return None
        sequence = self.whole("training", "seq_len", 2048) // sizes.context
        return {"micro_batch": sizes.micro_batch, "sequence": sequence, "hidden": hidden, "dtype": "bf16"}

    def _read(self, sizes: Sizes, layers: tuple[int, ...]) -> str:
        runs = ", ".join(f"{len(list(run))} x {count}" for count, run in groupby(layers))
        return (
            f"read: {sum(layers)} layers on {sizes.ranks} ranks ({runs}), {sizes.microbatches} microbatches of "
            f"{sizes.micro_batch}; tensor {sizes.tensor}, context {sizes.context}, data {sizes.data}"
        )


_SOURCES: Sources = {
    ("schedule",): "parallelism.pipeline_parallel_schedule",
    ("pipeline", "ranks"): "parallelism.pipeline_parallel_degree",
    ("pipeline", "microbatches"): "training.local_batch_size / parallelism.pipeline_parallel_microbatch_size",
    ("pipeline", "recompute"): "activation_checkpoint.mode",
}

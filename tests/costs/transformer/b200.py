"""The measured runs of ``tests/data/b200_megatron.csv`` as experiments."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path
from typing import Any

from ppsim.config.experiment import Experiment

DATA = Path(__file__).parents[2] / "data" / "b200_megatron.csv"
MODELS: dict[str, Any] = {
    "llama3-70b": {"like": "llama-3-70b"},
    "llama3-405b": {"like": "llama-3-405b", "kv_heads": 16},
    "deepseekv2": {"like": "deepseek-v2"},
}
SIZES = (
    "layers", "tensor_parallel", "context_parallel", "expert_parallel", "pipeline", "data_parallel", "sequence",
    "microbatches",
)  # fmt: skip


def rows() -> list[dict[str, Any]]:
    with DATA.open() as file:
        table = csv.DictReader(line for line in file if not line.startswith("#"))
        return [{**row, **{key: int(row[key]) for key in SIZES}} for row in table]


def name(row: dict[str, Any]) -> str:
    cuts = {"t": "tensor_parallel", "c": "context_parallel", "e": "expert_parallel", "p": "pipeline"}
    parts = [f"{short}{row[key]}" for short, key in cuts.items() if row[key] > 1]
    return "-".join([row["model"], *parts, f"s{row['sequence'] // 1024}k", f"m{row['microbatches']}"])


def experiment(row: dict[str, Any], bandwidth: str = "900 GB/s", **efficiency: Any) -> Experiment:
    """A row as it was run; ``bandwidth`` is that of every message and collective, all within one machine."""
    costs = {
        "kind": "transformer",
        "model": {**MODELS[row["model"]], "layers": row["layers"]},
        "optimizer_sharding": "optimizer",
        "efficiency": {"link": 1, **efficiency},
        **{key: row[key] for key in ("sequence", "tensor_parallel", "context_parallel", "expert_parallel")},
    }
    if row["model"] == "deepseekv2":
        costs["expert_capacity"] = 1
    return Experiment(
        schedule="1f1b",
        pipeline={
            "ranks": row["pipeline"], "microbatches": row["microbatches"], "micro_batch_size": 1,
            "data_parallel": row["data_parallel"],
        },
        costs=costs,
        cluster={"device": "b200-180gb", "intra_node": {"like": "nvlink5", "bandwidth": bandwidth}},
        runtime="megatron",
    )  # fmt: skip


def measured_bytes(row: dict[str, Any], stage: str) -> Fraction:
    return Fraction(row[f"peak_mib_{stage}_stage"]) * 2**20

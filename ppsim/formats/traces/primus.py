"""Primus' dump of pipeline times (``dump_pp_data``): ``pp_rank_N.json`` per rank, ``config.json`` beside them.

Per iteration: start and end of every forward and backward in ms (CUDA events, the same clock on all ranks), in the
order in which they ran, the iteration's ``total`` and the peak of reserved memory in GiB. With virtual stages the lists
hold microbatches times stages; ``fwd_chunk`` and ``fwd_minibatch`` say which is which, else it is Megatron's order.
Source: AMD-AGI/Primus, tools/visualization/pp_vis/vis.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ppsim.analysis.measured.table import Label, Measured, Rows
from ppsim.errors import FormatError, printable
from ppsim.formats.base import file_format
from ppsim.formats.traces._assemble import to_ns
from ppsim.formats.traces._files import label, whole
from ppsim.ops import NONE, Kind

LABELS = (Label("forward", Kind.F), Label("backward", Kind.B), Label("weight gradient", Kind.W))
_SERIES = ("fwd", "bwd", "wgrad")
_MS = 1e6
_MOST_OPS = 50_000_000


class _Sizes(NamedTuple):
    ranks: int
    virtual_stages: int
    microbatches: int
    replicas: int
    tensor_parallel: int | None


@file_format("primus", does="trace", what="Primus' pp_rank_N.json with config.json (dump_pp_data)")
def read(folder: Path) -> Measured:
    """A folder of such files as a Measured. Raises FormatError where it isn't one."""
    sizes = _sizes(folder / "config.json")
    missing = ["bytes and times of messages", "gradient sync and optimizer by themselves"]
    notes: list[str] = []
    files = {rank: folder / f"pp_rank_{rank}.json" for rank in range(sizes.ranks)}
    per_rank = {rank: _iterations(file) for rank, file in files.items() if file.is_file()}
    if not per_rank:
        raise FormatError(f"{label(folder)}: none of pp_rank_0.json … pp_rank_{sizes.ranks - 1}.json is there")
    if absent := [rank for rank in files if rank not in per_rank]:
        missing.append(f"rank {', '.join(map(str, absent))} of {sizes.ranks}: no pp_rank_{absent[0]}.json")
    steps = sorted(set.intersection(*({*found} for found in per_rank.values())))
    everywhere = set.union(*({*found} for found in per_rank.values()))
    if len(steps) < len(everywhere):
        notes.append(f"{len(everywhere) - len(steps)} iterations that not every rank has were left out")
    parts: list[Rows] = []
    whole_steps: list[int] = []
    memory: list[list[int]] = []
    for step in steps:
        found = [_rows(per_rank[rank][step], (rank, len(whole_steps)), sizes) for rank in per_rank]
        if wrong := next((text for _, text in found if text), None):
            notes.append(f"iteration {step} was left out: {wrong}")
            continue
        parts += [rows for rows, _ in found if rows is not None]
        whole_steps.append(step)
        memory.append([_bytes(per_rank[rank][step]) if rank in per_rank else NONE for rank in range(sizes.ranks)])
    if not whole_steps:
        raise FormatError("\n".join([f"{label(folder)}: no iteration is whole on all ranks", *notes]))
    held = np.array(memory, np.int64)
    if np.any(held < 0):
        missing.append("memory of some ranks")
    return Measured(
        format="primus",
        source=str(folder),
        labels=LABELS,
        rows=Rows.joined(parts).sorted(),
        ranks=sizes.ranks,
        replicas=1,
        stages=sizes.ranks * sizes.virtual_stages,
        microbatches=sizes.microbatches,
        steps=tuple(whole_steps),
        memory=None if np.all(held < 0) else held,
        tensor_parallel=sizes.tensor_parallel,
        missing=tuple(missing),
        notes=tuple(notes),
    )


def _loaded(path: Path) -> Any:
    raw = whole(path, "a rank's times")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{label(path)}: not JSON: {printable(str(error))[:200]}") from None


def _sizes(path: Path) -> _Sizes:
    if not path.is_file():
        raise FormatError(f"{label(path)}: missing; it holds pp_size, vp_size and num_mbs of Primus' dump")
    found = _loaded(path)
    if not isinstance(found, dict):
        raise FormatError(f"{label(path)}: must hold pp_size, vp_size, num_mbs, …")

    def size(*names: str, default: int | None = None) -> int:
        value = next((found[name] for name in names if found.get(name) is not None), default)
        if type(value) is not int or not 1 <= value <= 10**6:
            raise FormatError(
                f"{label(path)}: {names[0]}: must be a whole number from 1, not {printable(str(value)[:40])}"
            )
        return value

    ranks, chunks = size("pp_size"), size("vp_size", "vpp_size", default=1)
    microbatches = size("num_mbs", "micro_batches")
    if ranks * chunks * microbatches > _MOST_OPS:
        raise FormatError(f"{label(path)}: {ranks} · {chunks} · {microbatches} ops per step are more than can be meant")
    tensor = size("tp_size") if found.get("tp_size") is not None else None
    return _Sizes(ranks, chunks, microbatches, size("dp_size", default=1), tensor)


def _iterations(path: Path) -> dict[int, dict[str, Any]]:
    found = _loaded(path)
    if not isinstance(found, dict) or not all(isinstance(value, dict) for value in found.values()):
        raise FormatError(f"{label(path)}: must hold a mapping per iteration")
    if wrong := next((key for key in found if not (key.isdecimal() and len(key) < 10)), None):
        raise FormatError(f"{label(path)}: '{printable(wrong[:40])}' is not the number of an iteration")
    return {int(key): value for key, value in found.items()}


def _rows(step: dict[str, Any], place: tuple[int, int], sizes: _Sizes) -> tuple[Rows | None, str]:
    """One rank's rows of one step, or what is wrong with them."""
    rank, number = place
    count = sizes.microbatches * sizes.virtual_stages
    columns: list[tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    for which, series in enumerate(_SERIES):
        start, end = _times(step, f"{series}_start"), _times(step, f"{series}_end")
        if series == "wgrad" and not len(start) and not len(end):
            continue
        if len(start) != count or len(end) != count:
            return None, f"rank {rank} has {len(start)} {series}_start and {len(end)} {series}_end, {count} are due"
        if not (np.all(np.isfinite(start)) and np.all(np.isfinite(end))) or np.any(end < start):
            return None, f"rank {rank} has {series} times that aren't finite, or that end before they start"
        chunk, microbatch = _which(step, series, sizes)
        if chunk is None:
            return None, f"rank {rank}: {series}_chunk or {series}_minibatch isn't one of each"
        columns.append((which, start, end, chunk * sizes.ranks + rank, microbatch))
    full = count * len(columns)
    rows = Rows(
        np.zeros(full, np.int32),
        np.full(full, number, np.int32),
        np.full(full, rank, np.int32),
        np.repeat(np.array([which for which, *_ in columns], np.int32), count),
        np.concatenate([stage for *_, stage, _ in columns]).astype(np.int32),
        np.concatenate([microbatch for *_, microbatch in columns]).astype(np.int32),
        to_ns(np.concatenate([start for _, start, *_ in columns]), _MS, "start"),
        to_ns(np.concatenate([end for _, _, end, *_ in columns]), _MS, "end"),
        np.full(full, NONE, np.int32),
    )
    return rows, ""


def _times(step: dict[str, Any], key: str) -> np.ndarray:
    values = step.get(key) or []
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        return np.array([np.nan])
    try:
        return np.array(values, np.float64)
    except OverflowError:
        return np.array([np.nan])


def _which(step: dict[str, Any], series: str, sizes: _Sizes) -> tuple[Any, np.ndarray]:
    """The chunk and the microbatch of each op in the order in which they ran; (None, …) where what is told is wrong."""
    p, v, m = sizes.ranks, sizes.virtual_stages, sizes.microbatches
    told = [step.get(f"{series}_{what}") for what in ("chunk", "minibatch")]
    if all(isinstance(values, list) and len(values) == m * v for values in told):
        if any(type(value) is not int for values in told for value in values or ()):
            return None, np.empty(0)
        chunk, microbatch = (np.array(values, np.int64) for values in told)
        microbatch = microbatch - microbatch.min()
        pairs = np.unique(np.stack([chunk, microbatch]), axis=1)
        whole_set = pairs.shape[1] == m * v and chunk.min() == 0 and chunk.max() < v and microbatch.max() < m
        return (chunk if whole_set else None), microbatch
    if v == 1:
        return np.zeros(m, np.int64), np.arange(m)
    # Megatron's table: groups of p microbatches (the last one smaller), in each all of a chunk, then the next chunk's.
    order = [(c, k) for first in range(0, m, p) for c in range(v) for k in range(first, min(first + p, m))]
    chunk, microbatch = (np.array(column, np.int64) for column in zip(*order, strict=True))
    return (chunk if series == "fwd" else v - 1 - chunk), microbatch


def _bytes(step: dict[str, Any]) -> int:
    """Peak memory of one rank and step; -1 where it isn't told."""
    value = step.get("memory")
    good = type(value) in (int, float) and 0 < float(value) < 2**20  # type: ignore[arg-type]
    return round(float(value) * 2**30) if good else NONE  # type: ignore[arg-type]

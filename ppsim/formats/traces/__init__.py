"""Traces of measured runs, each kind in its own file; which one a file is, its content tells.

| what | from |
|---|---|
| ``pp_rank_N.json`` and ``config.json`` | Primus (``dump_pp_data``) |
| ``*.parquet`` | NDTimeline, as in ByteDance's straggler analysis |
| ``*.json``, ``*.json.gz``, or a folder with one per rank | PyTorch's profiler |
| ``tasks.csv``, ``trace.json`` | ppsim itself |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ppsim.analysis.measured.table import Measured
from ppsim.engine.watch import Watch
from ppsim.errors import FormatError, shown
from ppsim.formats.traces import kineto, ndtimeline, primus, tasks, trace
from ppsim.formats.traces._files import CUT_SHORT, PARQUET, head, is_folder, label

_TRACE_ENDS = (".json", ".json.gz", ".pt.trace.json", ".pt.trace.json.gz")
_KNOWN = "Primus' pp_rank_N.json, NDTimeline's Parquet, PyTorch profiler's JSON, ppsim's tasks.csv or trace.json"

__all__ = ["is_trace", "read_trace"]


def read_trace(path: Path | str, name: str | None = None, watch: Watch | None = None) -> Measured:
    """The measured run in a file or folder; ``name`` is a regular expression for the spans of a profiler's trace.

    Raises FormatError, with the reason, where there is none in it.
    """
    if not isinstance(path, str | Path):
        raise FormatError(f"read_trace takes the path of a file or folder, not {shown(path)}")
    path = Path(path)
    if is_folder(path):
        return _folder(path, name, watch)
    kind = _kind(path)
    if name is not None and kind != "kineto":
        raise FormatError(f"{label(path)}: --name is for the spans of a profiler's trace; this one is {kind}'s")
    if kind == "primus":
        return primus.read(path.parent)
    if kind == "ndtimeline":
        return ndtimeline.read(path)
    if kind == "ppsim-tasks":
        return tasks.read(path)
    if kind == "ppsim-trace":
        return trace.read(path, watch)
    if kind == "kineto":
        return kineto.read([path], name, watch)
    raise FormatError(f"{label(path)}: no trace that ppsim knows: {_KNOWN}")


def is_trace(path: Path) -> bool:
    """Whether a path looks like a trace and not like an experiment: by its content, YAML never does."""
    try:
        if is_folder(path):
            return bool(_members(path)) or (path / "config.json").is_file() or any(path.glob("*.parquet"))
        return _kind(path) is not None
    except (FormatError, *CUT_SHORT):
        return False


def _kind(path: Path) -> str | None:
    """Whose trace a file is, or None."""
    start = head(path)
    if start[:4] == PARQUET:
        return "ndtimeline"
    text = start.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text[:1] in ("{", "["):
        if '"otherData":{"by":"ppsim"' in text[:200]:
            return "ppsim-trace"
        if path.name == "config.json" and '"pp_size"' in text:
            return "primus"
        if '"fwd_start"' in text and '"traceEvents"' not in text:
            return "primus"
        return "kineto" if '"traceEvents"' in text or '"ph"' in text or '"schemaVersion"' in text else None
    first = text.split("\n", 1)[0].split(",")
    return "ppsim-tasks" if {"rank", "kind", "start_s", "end_s"} <= {word.strip() for word in first} else None


def _members(folder: Path) -> list[Path]:
    """The files of a folder that may be a rank's trace."""
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(_TRACE_ENDS) and path.is_file())
    except OSError as error:
        raise FormatError(f"{label(folder)}: can't be read: {error.strerror or error}") from None


def _folder(folder: Path, name: str | None, watch: Watch | None) -> Measured:
    files = _members(folder)
    if any(path.name.startswith("pp_rank_") for path in files):
        return primus.read(folder)
    if (folder / "tasks.csv").is_file():
        return tasks.read(folder / "tasks.csv")
    tables = sorted(folder.glob("*.parquet"))
    if tables:
        return ndtimeline.read(_only(tables, folder))
    kinds = {path: _kind(path) for path in files}
    profiles = [path for path, kind in kinds.items() if kind == "kineto"]
    if not profiles and (ours := [path for path, kind in kinds.items() if kind == "ppsim-trace"]):
        return trace.read(_only(ours, folder), watch)
    if not profiles:
        raise FormatError(f"{label(folder)}: holds no trace that ppsim knows: {_KNOWN}")
    return kineto.read(profiles, name, watch)


def _only(paths: Sequence[Path], folder: Path) -> Path:
    if len(paths) > 1:
        names = ", ".join(path.name for path in paths[:4])
        raise FormatError(
            f"{label(folder)}: holds {len(paths)} traces ({names}{', …' if len(paths) > 4 else ''}); name one"
        )
    return paths[0]

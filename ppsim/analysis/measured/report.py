"""A fitted experiment as YAML, with a comment on each value: how many samples, what spread."""

from __future__ import annotations

from typing import Any

from ppsim.analysis.measured.changes import Change
from ppsim.analysis.measured.fit import Fit
from ppsim.config import yamlfile
from ppsim.errors import printable


def text(found: Fit, order_file: str | None = None, change: Change | None = None) -> str:
    """The experiment (or the one with a change) as YAML; ``order_file`` holds the order where no schedule has it."""
    made = found.calibrated
    settings: dict[str, Any] = made.settings if change is None else change.settings
    if settings.get("schedule") is None:
        settings = {**settings, "schedule": {"name": "file", "path": order_file}}
    comments = dict(made.comments) if change is None else {}
    head = "".join(f"# {printable(line)}\n" for line in _head(found, change))
    return head + yamlfile.dump(settings, comments)


def _head(found: Fit, change: Change | None) -> list[str]:
    """Where it is from, and how near it comes."""
    measured = found.measured
    lines = [f"Fitted to {measured.source} ({measured.format}, {len(found.lanes.steps)} steps) by `ppsim fit`."]
    if change is not None:
        lines.append(f"With one change: {change.change}; step {change.step_s:.6g} s, gain {change.gain:.1%}.")
        return lines + ([f"({change.note})"] if change.note else [])
    lines.append(
        f"Step, first F to last B: measured {found.measured_ns / 1e9:.6g} s, this {found.fitted_ns / 1e9:.6g} s "
        f"({found.fitted_ns / found.measured_ns - 1 + 0.0:+.2%})."
    )
    return lines

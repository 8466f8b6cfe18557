"""Measured runs as text: what they are; of a fitted one predicted beside measured, who slows it, what would pay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ppsim._words import percent, seconds, size
from ppsim.display.console import table_of
from ppsim.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

    from ppsim.analysis.measured.fit import Fit
    from ppsim.analysis.measured.result import MeasuredResult

RANKS_SHOWN = 16
SHOWN = 4
"""Factors of a kind that are shown, the largest."""
_OF = {"stage": "stage", "data_parallel": "replica", "kind": "kind", "worker": "worker"}


def measured(result: MeasuredResult, console: Console, files: list[str], folder: str) -> None:
    """Print one screen about a measured run: its step, its ranks, what is missing."""
    from rich.text import Text

    def say(line: str, style: str = "") -> None:
        console.print(Text(printable(line), style=style), soft_wrap=True)

    s, over, found = result.summary, result.over_steps, result.measured
    chunks = f", v = {s['virtual_stages']}" if s["virtual_stages"] > 1 else ""
    copies = f", {found.replicas} replicas" if found.replicas > 1 else ""
    say(
        f"{s['name']}: {found.format}; {s['schedule']}, p = {s['ranks']}, m = {s['microbatches']}{chunks}{copies}",
        "bold",
    )
    for notice in result.notices:
        say(f"missing: {notice.message}" if notice.code == "missing" else notice.message, "yellow")
    step, bubble = over["step_s"], over["bubble_ratio"]
    say(
        f"step, first F to last B: {seconds(step['median'])}, the median of {over['steps']} "
        f"({seconds(step['min'])} to {seconds(step['max'])})"
    )
    say(f"bubble_ratio: {percent(bubble['median'])} ({percent(bubble['min'])} to {percent(bubble['max'])})")
    say(f"step {result.lanes.steps[result.median_step]}, replica {result.replica}:")
    table_of([_rank_row(row) for row in s["per_rank"][:RANKS_SHOWN]], console)
    say(f"limit: {result.limit}")
    if files:
        say(f"files: {folder}/{{{', '.join(files)}}}")


def _rank_row(row: Mapping[str, Any]) -> dict[str, str]:
    waits = sorted((row["waits_s"] or {}).items(), key=lambda item: -item[1])
    return {
        "rank": str(row["rank"]),
        "busy": seconds(row["busy_s"]),
        "idle": seconds(row["idle_s"]),
        "bubble": percent(row["bubble_ratio"]),
        "idle time": ", ".join(f"{cause} {seconds(value)}" for cause, value in waits if value) or "–",
        "peak memory": size(row["peak_memory_bytes"]),
    }


def fitted(found: Fit, console: Console, files: list[str]) -> None:
    """Print one screen about a fitted run."""
    from rich.text import Text

    s = found.summary()

    def say(line: str, style: str = "") -> None:
        console.print(Text(printable(line), style=style), soft_wrap=True)

    say(_title(found, s), "bold")
    for note in (*(f"missing: {text}" for text in s["missing"]), *s["notes"], *s["clocks"]):
        say(note, "yellow")
    say(_order(found, s))
    for line in _beside(found, s):
        say(line)
    console.print()
    for line in _slow(s):
        say(line)
    console.print()
    title = "what would pay (simulated from the fitted experiment; gain in time per microbatch)"
    table_of(_changes(found, s), console, title=title)
    for change in found.changes:
        if change.note:
            say(f"{change.change}: {change.note}")
    say(f"scaled: with the {s['residual']:+.2%} of the step that no constant explains")
    if files:
        say(f"files: {', '.join(files)}")


def _changes(found: Fit, s: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row per change; scaled: with what the constants leave unexplained of this run."""
    if not found.changes:
        return [{"change": "nothing here would gain"}]
    return [
        {
            "change": change.change,
            "step": seconds(change.step_s),
            "gain": percent(change.gain),
            "scaled": seconds(row["step_scaled_s"]),
            "peak": size(change.peak_memory_bytes),
        }
        for change, row in zip(found.changes, s["changes"], strict=True)
    ]


def _title(found: Fit, s: Mapping[str, Any]) -> str:
    chunks = f", v = {s['virtual_stages']}" if s["virtual_stages"] > 1 else ""
    copies = f", {s['data_parallel']} replicas" if s["data_parallel"] > 1 else ""
    sizes = f"p = {s['ranks']}, m = {s['microbatches']}{chunks}{copies}"
    return f"{found.measured.source}: {s['format']}; {sizes}; {s['steps']} steps"


def _order(found: Fit, s: Mapping[str, Any]) -> str:
    if found.order.setting is None:
        return "order: no schedule of ppsim's; taken as it ran"
    return f"order: {s['schedule']}'s, in {s['orders_equal']:.0%} of all ranks, steps and replicas"


def _beside(found: Fit, s: Mapping[str, Any]) -> list[str]:
    """Predicted beside measured."""
    span = found.lanes.span / 1e9
    error = found.replayed / found.lanes.span - 1
    measured = s["measured_s"]

    def against(value: float) -> str:
        return f"{seconds(value)} ({value / measured - 1:+.2%})"

    whole = f"{seconds(float(span.min()))} to {seconds(float(span.max()))}"
    parted = s["parted_at"]
    start = s["start_error_s"]
    return [
        f"step, first F to last B: measured {seconds(measured)} (median; {whole})",
        f"  every op's own time, no gaps:  {against(s['replay_s'])}; all steps {error.mean():+.2%} on average, "
        f"{error[abs(error).argmax()]:+.2%} at worst",
        f"  … with {seconds(s['op_overhead_s'])} before every op:  {against(s['replay_with_overhead_s'])}",
        f"  constants (the experiment):  {against(s['fitted_s'])}; residual {s['residual']:+.2%}",
        f"  starts of ops: {seconds(start['median'])} off in the middle, {seconds(start['most'])} at most; "
        + (f"they part at {parted} (1 % of the step)" if parted else "none by 1 % of the step"),
        f"  ops differ from their stage's median by {s['op_spread']:.1%} on average: no constant explains that",
    ]


def _slow(s: Mapping[str, Any]) -> list[str]:
    """The slowdown and the factors."""
    lines = [
        f"slowdown {s['slowdown']:.4f}: the step over one in which every op takes its kind's typical time "
        f"(with medians by stage, which hide the imbalance of stages: {s['slowdown_by_stage']:.4f})"
    ]
    for key, factors in s["factors"].items():
        if len(factors) > 1:
            largest = ", ".join(f"{name} {value:.4f}" for name, value in list(factors.items())[:SHOWN])
            lines.append(f"  only this {_OF[key]} as measured: {largest}{', …' if len(factors) > SHOWN else ''}")
    return lines

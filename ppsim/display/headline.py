"""A result in words: the figures that everybody asks for, a row per rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ppsim._words import percent, seconds, sizes
from ppsim.analysis.alternatives import equal
from ppsim.costs.given import GivenCosts
from ppsim.metrics.throughput import steps_to_see

if TYPE_CHECKING:
    from ppsim.analysis.result import Result


RANKS_SHOWN = 16


COLUMNS = ("rank", "stages", "busy", "idle", "bubble", "mostly", "peak memory", "in flight")


def headline(result: Result) -> list[tuple[str, str]]:
    """The figures that everybody asks for, as (name, value)."""
    s, form = result.summary, result.theory
    rows = [("step time" if s["steps"] == 1 else f"{s['steps']} steps", seconds(s["makespan_s"]))]
    if result.plan.asynchronous:
        steady = f"{seconds(s['period_s'])} a minibatch, {percent(s['steady_bubble_ratio'])} idle"
        if s["period_s"] is None:
            steady = f"too short to see one; pipeline.steps: {steps_to_see(result.run)} shows it"
        rows = [
            ("stream", f"{seconds(s['makespan_s'])} for {s['microbatches'] * s['steps']:,} minibatches"),
            ("steady state", steady),
            ("versions", "of the weights: " + ", ".join(str(row["weight_versions"]) for row in s["per_rank"][:16])),
        ]
    elif s["steps"] > 1:
        rows.append(("per step", f"{seconds(s['step_time_s'])}, steady {seconds(s['period_s'])}"))
    whose = "closed form" if equal(result) else "closed form for equal stages"
    by_theory = f" ({whose}: {percent(form['bubble_ratio'])})" if form and s["steps"] == 1 else ""
    if s["uncertainty"] is not None:
        rows.append(("uncertain", _spread_line(s["uncertainty"])))
    rows.append(("bubble_ratio", f"{percent(s['bubble_ratio'])} of all device time is idle{by_theory}"))
    rows.append(("bubble_overhead", f"idle is {percent(s['bubble_overhead'])} of busy time"))
    if s["samples_per_s"] is not None:
        tokens = "" if s["tokens_per_s"] is None else f", {s['tokens_per_s']:,.0f} tokens/s"
        rows.append(("throughput", f"{s['samples_per_s']:.4g} samples/s{tokens}"))
    if s["mfu"] is not None:
        rate = s["device_flop_per_s"] / 1e12
        rows.append(("mfu", f"{percent(s['mfu'])} of the peak rate: {rate:.4g} TFLOP/s per device"))
    rows.append(("peak memory", _memory_line(result)))
    if s["max_speedup"] is not None:
        rows.append(
            (
                "could win",
                f"at most {s['max_speedup']:.3f}x by another order in one step ({seconds(s['step_bound_s'])}), "
                f"{s['max_speedup_stream']:.3f}x over many without barrier ({seconds(s['busy_bound_s'])})",
            )
        )
    return rows


def _spread_line(spread: dict[str, Any]) -> str:
    """How far the step time spreads over the repeats."""
    time = spread["figures"]["step_time_s"]
    low, high = time["ci95_low"], time["ci95_high"]
    sure = f" (95 % confidence: {seconds(low)} to {seconds(high)})" if low is not None else ""
    tail = ", ".join(f"{name} {seconds(time[name])}" for name in ("p50", "p95", "p99"))
    return f"step time over {spread['repeat']:,} repeats: mean {seconds(time['mean'])}{sure}, {tail}"


def _memory_line(result: Result) -> str:
    s = result.summary
    ranks = s["per_rank"]
    worst = max(ranks, key=lambda row: row["peak_memory_bytes"])
    peak, capacity, missing = worst["peak_memory_bytes"], result.plan.capacity, not_given(result)
    over = None if capacity is None else abs(peak - capacity)
    shown, whole, too_much = sizes([peak, capacity, over])
    kinds = [name for name, held in worst["peak_by_category"].items() if held]
    what = f" of {' and '.join(kinds)}" if missing and 0 < len(kinds) < 3 else ""
    text = f"{shown}{what} on rank {worst['rank']}"
    if capacity is not None:
        text += f", of {whole} of the device's memory" if missing else f" of {whole}"
    if capacity is not None and peak > capacity:
        text += f": does NOT fit, {too_much} too much at {seconds(worst['peak_memory_at_s'])}"
    elif capacity is not None:
        text += "" if missing else ": fits"
    if not missing:
        return text
    if not peak:
        return f"unknown: {' and '.join(missing)} not given"
    unknown = ", so that whether it fits isn't known" if capacity is not None and peak <= capacity else ""
    return f"{text}; {' and '.join(missing)} not given{unknown}"


def not_given(result: Result) -> list[str]:
    """What takes memory in every training and isn't in the costs: to ppsim it is nothing, in truth it is unknown."""
    costs = result.experiment.costs
    return costs.unknown_memory if isinstance(costs, GivenCosts) else []


def rank_rows(result: Result, causes: int = 2) -> Iterator[list[str]]:
    """The table per rank as text, its idle time by the largest ``causes``; of many ranks the first and last ones."""
    rows = result.summary["per_rank"]
    held = result.plan.placement.stages_of
    unknown = bool(not_given(result))
    kept = [None if unknown and not row["peak_memory_bytes"] else row["peak_memory_bytes"] for row in rows]
    peaks = sizes(kept, result.plan.capacity)
    for row in rows:
        if len(rows) > RANKS_SHOWN and RANKS_SHOWN // 2 <= row["rank"] < len(rows) - RANKS_SHOWN // 2:
            if row["rank"] == RANKS_SHOWN // 2:
                yield ["…"] * 8
            continue
        idle = {cause: value for cause, value in (row["waits_s"] or {}).items() if value}
        longest = sorted(idle.items(), key=lambda item: -item[1])[:causes]
        stages = held[row["rank"]]
        yield [
            str(row["rank"]),
            ",".join(map(str, stages[:4])) + ("…" if len(stages) > 4 else ""),
            seconds(row["busy_s"]),
            seconds(row["idle_s"]),
            percent(row["bubble_ratio"]),
            ", ".join(f"{cause} {seconds(value)}" for cause, value in longest) or "–",
            peaks[row["rank"]],
            str(row["peak_in_flight"]),
        ]

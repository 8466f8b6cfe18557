"""Schedules whose order a rule fixes, beside the orders that the frameworks run and the oracles of their index.

Makespans are with F=1, B=2, I=W=1 ms per stage op and free links; peaks in activations of one stage and microbatch.
"""

from __future__ import annotations

from typing import Any

import pytest

from ppsim.analysis.specify import specify
from ppsim.ops import orderfile as dialects
from ppsim.plan.unroll import with_recompute
from tests.goldens import Case, cases
from tests.simulated import experiment, simulate

FIXED = (
    *("gpipe", "torchgpipe", "1f1b", "megatron_1f1b", "deepspeed_1f1b", "alpa_eager_1f1b", "interleaved_1f1b"),
    *("megatron_interleaved", "looped_bfs", "interleaved_zb", "zbv", "dualpipe", "dualpipev", "dualpipev_deepseek"),
    *("chimera", "pipedream"),
)
OURS = {"megatron_1f1b": "1f1b", "deepspeed_1f1b": "1f1b", "dualpipev_deepseek": "dualpipev"}
RECOMPUTED = {"never": "none", "always": "full", "except_last": "except_last"}


def schedule(case: Case) -> Any:
    """The schedule of a golden case, as a config writes it."""
    v = case.virtual_stages
    match case.schedule:
        case "torchgpipe":
            return {"name": "gpipe", "backward": "descending"}
        case "alpa_eager_1f1b":
            return "eager_1f1b"
        case "interleaved_1f1b":  # PyTorch's class at v = 1 runs the eager form; see the golden files' README
            return {"name": "interleaved_1f1b", "virtual_stages": v} if v > 1 else "eager_1f1b"
        case "megatron_interleaved":
            group = case.extra.get("group_size") or case.extra.get("microbatch_group_size_per_vp_stage")
            combined = "combined" in case.path.name
            found: dict[str, Any] = {"name": "interleaved_1f1b", "virtual_stages": v, "combined": combined}
            return {**found, "group": int(group)} if group else found
        case "looped_bfs" | "interleaved_zb":
            return {"name": case.schedule, "virtual_stages": v}
    return OURS.get(case.schedule, case.schedule)


def settings(case: Case) -> dict[str, Any]:
    """Costs of the index; an activation is a byte, and all of it is held for the weight half."""
    return {
        "pipeline": {"recompute": RECOMPUTED[case.extra.get("checkpoint", "never")]},
        "costs": {"input_grad": "1 ms", "weight_grad": "1 ms", "recompute": "1 ms", "stage_input": "1 B"},
    }


@pytest.mark.parametrize("case", cases(*FIXED), ids=str)
def test_order_is_the_frameworks(case: Case) -> None:
    exp = experiment(schedule(case), case.ranks, case.microbatches, **settings(case))
    problem = exp.problem()
    orders = with_recompute(exp.schedule.orders(problem), specify(exp, problem))
    assert dialects.write(orders) == case.orders_text()


@pytest.mark.parametrize("case", cases(*FIXED), ids=str)
def test_makespan_and_peaks_are_the_indexs(case: Case) -> None:
    result = simulate(schedule(case), case.ranks, case.microbatches, **settings(case))
    assert list(result.timeline.violations()) == []
    assert result.timeline.makespan == case.makespan * 10**6
    assert tuple(row["peak_in_flight"] for row in result.per_rank()) == case.peak_until_b_or_i
    held = tuple(row["peak_by_category"]["activations"] for row in result.per_rank())
    assert held == case.peak_until_b_or_w


@pytest.mark.parametrize("case", [c for c in cases(*FIXED) if "OVERLAP" in c.orders_text()], ids=str)
def test_makespan_with_serial_pairs_is_the_indexs(case: Case) -> None:
    """A fused pair that runs as its forward, then its backward."""
    sections = settings(case)
    sections["costs"]["pair"] = "serial"
    result = simulate(schedule(case), case.ranks, case.microbatches, **sections)
    assert result.timeline.makespan == case.makespan_fb_serial * 10**6


def test_default_group_is_pytorchs_wherever_it_accepts_the_sizes() -> None:
    """PyTorch: rounds = max(1, m div p), groups of m div rounds, m divisible by rounds."""
    from ppsim.schedules.interleaved_1f1b import default_group

    for p in range(1, 17):
        for m in range(1, 100):
            rounds = max(1, m // p)
            if m % rounds == 0:
                assert default_group(p, m) == m // rounds, (p, m)

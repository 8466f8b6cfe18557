"""What PyTorch itself needs to lay a schedule out: its order, and its dry run of computing and communicating in slots.

As a program: ``python -m tests.benchmarks.torch_spacing SCHEDULE RANKS MICROBATCHES`` prints CPU seconds.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from ppsim.formats import torch_csv
from tests.formats import torch_stages
from tests.simulated import experiment

CLASSES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved_1f1b": "Interleaved1F1B"}
"""Our names and PyTorch's."""


def seconds(schedule: str, ranks: int, microbatches: int) -> float:
    """CPU seconds of making the order, adding SEND and RECV, and ``_simulate_comms_compute``.

    The dry run is given our order of the same schedule, since PyTorch's own listing of 1F1B is not what it runs and
    fails in it; turning that into PyTorch's objects isn't counted.
    """
    from torch.distributed.pipelining import schedules

    exp = experiment(schedule, ranks, microbatches)
    problem = exp.problem()
    order = torch_stages.actions(torch_csv.compute_only(exp.schedule.orders(problem)))
    stages = problem.stages
    made = torch_stages.live(CLASSES[schedule], ranks, microbatches, stages // ranks)

    def rank_of(stage: int) -> int:
        return stage % ranks

    start = time.process_time()
    _own_order(made, ranks)
    schedules._simulate_comms_compute(schedules._add_send_recv(order, rank_of, stages), rank_of, stages)
    return time.process_time() - start


def _own_order(schedule: Any, ranks: int) -> Any:
    if hasattr(schedule, "_calculate_single_rank_operations"):
        return [schedule._calculate_single_rank_operations(rank) for rank in range(ranks)]
    return schedule._get_pipeline_order()


if __name__ == "__main__":
    print(seconds(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

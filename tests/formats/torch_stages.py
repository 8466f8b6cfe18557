"""Live schedules of the installed PyTorch without process groups or tensors: real classes around stand-in stages."""

from __future__ import annotations

from typing import Any

STAGES_PER_RANK = {"GPipe": 1, "1F1B": 1, "ZBVZeroBubble": 2, "DualPipeV": 2}
"""For the classes that fix them."""


def live(name: str, ranks: int, microbatches: int, stages_per_rank: int = 2) -> Any:
    """An object of PyTorch's class of that name, as made on rank 0."""
    from torch.distributed.pipelining import schedules

    per_rank = STAGES_PER_RANK.get(name, stages_per_rank)
    stages = [_Stage(index, ranks, ranks * per_rank) for index in range(0, ranks * per_rank, ranks)]
    return schedules.get_schedule_class(name)(stages if per_rank > 1 or _multi(name) else stages[0], microbatches)


def runtime(ranks: int, microbatches: int, stages: int) -> Any:
    """PyTorch's runtime for any schedule, still without an order; ``_load_csv`` gives it one."""
    from torch.distributed.pipelining import schedules

    mine = [_Stage(index, ranks, stages) for index in range(0, stages, ranks)]
    return schedules._PipelineScheduleRuntime(mine, microbatches)


def table(order: dict[int, list[Any]]) -> list[list[str]]:
    """An order of PyTorch's as cells of text, without its idle slots."""
    return [[str(action) for action in order[rank] if action is not None] for rank in sorted(order)]


def actions(text: str) -> dict[int, list[Any]]:
    """An order file as PyTorch's actions."""
    from torch.distributed.pipelining import schedules

    rows = text.splitlines()
    return {r: [schedules._Action.from_str(cell) for cell in row.split(",")] for r, row in enumerate(rows)}


def _multi(name: str) -> bool:
    return name not in ("GPipe", "1F1B")


class _Stage:
    """What the schedules' constructors read of a stage."""

    def __init__(self, index: int, ranks: int, stages: int) -> None:
        self.stage_index, self.num_stages = index, stages
        self.group_size, self.group_rank = ranks, 0
        self.is_first, self.is_last = index == 0, index == stages - 1
        self.submod = None
        self.has_backward = False
        self.stage_index_to_group_rank: dict[int, int] = {}

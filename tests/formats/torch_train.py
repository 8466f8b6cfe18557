"""One rank of a small real training step in the order of a file; run by ``test_torch_itself``.

``python -m tests.formats.torch_train FILE RANK MICROBATCHES`` writes the gradients of its stages beside the file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ppsim.ops import orderfile as dialects

WIDTH, PER_MICROBATCH = 8, 2


def model(stages: int) -> list[nn.Module]:
    """The same stages in every process."""
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(stages)]


def batch(microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same inputs and targets in every process."""
    torch.manual_seed(1)
    return torch.randn(microbatches * PER_MICROBATCH, WIDTH), torch.randn(microbatches * PER_MICROBATCH, WIDTH)


def gradients(stage: nn.Module) -> list[list[float]]:
    """The gradients of a stage's parameters as plain numbers."""
    return [parameter.grad.flatten().tolist() for parameter in stage.parameters() if parameter.grad is not None]


def whole_step(stages: int, microbatches: int) -> dict[int, list[list[float]]]:
    """The gradients of the step without a pipeline."""
    parts, (x, y) = model(stages), batch(microbatches)
    nn.MSELoss()(nn.Sequential(*parts)(x), y).backward()
    return {stage: gradients(part) for stage, part in enumerate(parts)}


def step(path: Path, rank: int, microbatches: int) -> dict[int, list[list[float]]]:
    """The gradients of this rank's stages, after a step in the file's order."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    tables = dialects.read(path.read_text())
    held = [sorted(set(table.stage.tolist())) for table in tables]
    stages = 1 + max(max(mine) for mine in held)
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=path.with_suffix(".store").as_uri(), rank=rank, world_size=len(tables)
    )
    parts, (x, y) = model(stages), batch(microbatches)
    mine = [PipelineStage(parts[s], s, stages, torch.device("cpu")) for s in held[rank]]
    schedule: Any = _PipelineScheduleRuntime(mine, microbatches, loss_fn=nn.MSELoss())
    schedule._load_csv(str(path), format="compute_comms")
    schedule.step(*([x] if 0 in held[rank] else []), **({"target": y} if stages - 1 in held[rank] else {}))
    torch.distributed.destroy_process_group()
    return {s: gradients(parts[s]) for s in held[rank]}


if __name__ == "__main__":
    file, this_rank = Path(sys.argv[1]), int(sys.argv[2])
    torch.save(step(file, this_rank, int(sys.argv[3])), file.with_suffix(f".{this_rank}"))

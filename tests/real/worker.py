"""One rank of a real run: ``python -m tests.real.worker SPEC RANK`` writes when its ops ran beside SPEC.

Stages sleep instead of computing. An op begins when its method of the stage is entered and ends when the rank comes to
wait for a message, or to the next op: what PyTorch does in between is part of it. Times are in ns of the machine's own
clock, which all processes share.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, schedules

from tests.real import priority

TIMEOUT = timedelta(seconds=60)


class Sleep(torch.autograd.Function):
    """Hands its input on, so many seconds later; likewise its gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward_s: float, backward_s: float) -> torch.Tensor:
        ctx.backward_s = backward_s
        time.sleep(forward_s)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        time.sleep(ctx.backward_s)
        return gradient, None, None


class Join(torch.autograd.Function):
    """Something as large as the first input that depends on both; nobody looks at the values, so none are written."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return gradient.new_empty(gradient.shape), gradient.new_zeros(1)


class Sleeper(nn.Module):
    """A stage whose ops take the given seconds, by their text, and no time where none is given.

    A backward sleeps on the way to the input, its weight half on the way to the weight. The first stage has no way to
    an input: all of its backward is on the other.
    """

    def __init__(self, stage: int, sleeps: dict[str, float]) -> None:
        super().__init__()
        self.stage, self.sleeps = stage, sleeps
        self.weight = nn.Parameter(torch.zeros(1))
        self.microbatch: int | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        to_input = self._seconds("B") + self._seconds("I")
        to_weight = self._seconds("W") + (0 if self.stage else to_input)
        return Join.apply(Sleep.apply(x, self._seconds("F"), to_input), Sleep.apply(self.weight, 0, to_weight))

    def _seconds(self, kind: str) -> float:
        return self.sleeps.get(f"{self.stage}{kind}{self.microbatch}", 0.0)


class Record:
    """The ops of a step as [op, start, end], in the order in which they ran."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._waited = 0

    def run(self, op: str, work: Callable[[], Any]) -> Any:
        """Run an op; the one before it has ended, but for the waits since."""
        start = time.monotonic_ns()
        if self.rows:
            self.rows[-1][2] = start - self._waited
        result = work()
        self._waited = 0
        self.rows.append([op, start, time.monotonic_ns()])
        return result

    def waiting(self, wait: Callable[[Any], None]) -> Callable[[Any], None]:
        """The same wait for messages, timed."""

        def timed(works: Any) -> None:
            start = time.monotonic_ns()
            wait(works)
            self._waited += time.monotonic_ns() - start

        return timed


class RecordedStage(PipelineStage):
    """PyTorch's own stage, that records when its ops run."""

    record: Record

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        self.submod.microbatch = fwd_chunk_id
        return self._recorded("F", fwd_chunk_id, lambda: super(RecordedStage, self).forward_one_chunk(
            fwd_chunk_id, *args, **kwargs))  # fmt: skip

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        return self._recorded("B" if kwargs.get("full_backward", True) else "I", bwd_chunk_id, lambda: super(
            RecordedStage, self).backward_one_chunk(bwd_chunk_id, *args, **kwargs))  # fmt: skip

    def backward_weight_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        return self._recorded("W", bwd_chunk_id, lambda: super(RecordedStage, self).backward_weight_one_chunk(
            bwd_chunk_id, *args, **kwargs))  # fmt: skip

    def _recorded(self, kind: str, microbatch: int, work: Callable[[], Any]) -> Any:
        return self.record.run(f"{self.stage_index}{kind}{microbatch}", work)


def steps(spec: dict[str, Any], rank: int) -> list[list[list[Any]]]:
    """The ops of each of the spec's steps, on this rank; a step without sleeps goes first, which sets PyTorch up."""
    held, stages, m = spec["held"][rank], spec["stages"], spec["microbatches"]
    sleepers = [Sleeper(stage, {}) for stage in held]
    parts = [RecordedStage(part, part.stage, stages, torch.device("cpu")) for part in sleepers]
    kind = schedules.get_schedule_class(spec["schedule"])
    several = issubclass(kind, schedules.PipelineScheduleMulti)
    schedule: Any = kind(parts if several else parts[0], m, loss_fn=lambda output, target: output.sum())
    whole = torch.zeros(m, spec["message"] // 4)
    inputs, target = ([whole] if 0 in held else []), ({"target": whole} if stages - 1 in held else {})
    plain_wait = schedules._wait_batch_p2p
    found = []
    for sleeps in ({}, *[spec["sleeps"]] * spec["steps"]):
        record = Record()
        schedules._wait_batch_p2p = record.waiting(plain_wait)
        for part, sleeper in zip(parts, sleepers, strict=True):
            part.record, sleeper.sleeps = record, sleeps
        distributed.barrier()
        schedule.step(*inputs, **target, return_outputs=False)
        found.append(record.rows)
    return found[1:]


def main(path: Path, rank: int) -> None:
    """Read the spec, run, write what was found."""
    spec = json.loads(path.read_text())
    torch.set_num_threads(1)
    priority.to_wake_up_in_time()
    store = path.with_suffix(".store").as_uri()
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=len(spec["held"]), timeout=TIMEOUT)
    path.with_suffix(f".{rank}").write_text(json.dumps(steps(spec, rank)))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

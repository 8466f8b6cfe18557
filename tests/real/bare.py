"""One of two ranks that send bare messages: ``python -m tests.real.bare SPEC RANK`` writes its times beside SPEC."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from torch import distributed

from tests.real import priority


def transfers(sizes: list[int], repeats: int, rank: int) -> list[tuple[int, int]]:
    """(start, end) in ns of every message of rank 0 to rank 1, as this rank sees it."""
    found = []
    for size in sizes:
        message = torch.zeros(size, dtype=torch.uint8)
        for _ in range(repeats):
            distributed.barrier()
            start = time.monotonic_ns()
            if rank == 0:
                distributed.send(message, 1)
            else:
                distributed.recv(message, 0)
            found.append((start, time.monotonic_ns()))
    return found


def main(path: Path, rank: int) -> None:
    """Read the spec, send, write what was found."""
    spec = json.loads(path.read_text())
    priority.to_wake_up_in_time()
    distributed.init_process_group("gloo", init_method=path.with_suffix(".store").as_uri(), rank=rank, world_size=2)
    path.with_suffix(f".{rank}").write_text(json.dumps(transfers(spec["sizes"], spec["repeats"], rank)))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

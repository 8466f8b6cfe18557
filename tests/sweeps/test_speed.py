"""What a sweep costs its parent: memory that doesn't grow with the cases.

What it costs in time is measured, not tested: 10,000 cases of p = 8, m = 64 (these schedules; ten forwards, five
messages, 50 links) take with two workers, start and tables included, 3.5 s of CPU time per 1,000 on a busy machine where
1,000 bare SimPy loops of that size take 31.6 s. Where these take 18.3 s, as in ``results/reference/small_cases.csv``,
that is 2.0 s per 1,000, so about 1,000 cases a second on two cores.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.sweeps.sweeping import BASE, command, finished, wait_until, written

pytestmark = pytest.mark.slow
# p = 8, m = 64, four schedules of 1024 to 3072 ops, 750 links: 3000 cases.
LATENCIES = ", ".join(f"{n} us" for n in range(25))
LINKS = f"""\
cluster: {{device: a100-80gb, ranks_per_node: 4, intra_node: nvlink3, inter_node: ib-hdr}}
sweep:
  grid:
    schedule: [gpipe, 1f1b, {{name: interleaved_1f1b, virtual_stages: 2}}, zbv]
    cluster.inter_node.latency: [{LATENCIES}]
    cluster.inter_node.bandwidth: [1 GB/s, 2 GB/s, 3 GB/s, 5 GB/s, 8 GB/s, 10 GB/s, 12 GB/s, 25 GB/s, 50 GB/s, 100 GB/s]
    cluster.intra_node.latency: [1 us, 2 us, 4 us]
"""
CASES = 3000


def megabytes(process: int) -> int:
    """The memory of a process, which stands still meanwhile."""
    os.kill(process, signal.SIGSTOP)
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    os.kill(process, signal.SIGCONT)
    return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def test_the_parents_memory_does_not_grow(tmp_path: Path) -> None:
    """Between a fifth and four fifths of 3000 cases."""
    written(tmp_path, BASE.replace("ranks: 4, microbatches: 8", "ranks: 8, microbatches: 64") + LINKS)
    with (tmp_path / "log").open("wb") as log:
        sweep = subprocess.Popen(
            command("sweep", "x.yaml", "--jobs", "2", "--out", "out"), cwd=tmp_path, stdout=log, stderr=log
        )
        file = tmp_path / "out/sweep.sqlite"
        wait_until(lambda: finished(file) >= CASES // 5, "a fifth of the cases", sweep, patience=600)
        early = megabytes(sweep.pid)
        wait_until(lambda: finished(file) >= CASES * 4 // 5, "four fifths of the cases", sweep, patience=600)
        late = megabytes(sweep.pid)
        assert sweep.wait() == 0, (tmp_path / "log").read_text(encoding="utf-8")
    assert finished(file) == CASES
    assert late - early <= 10

"""Record what PyTorch's profiler writes of a real pipeline: three processes, gloo, CPU, no GPU needed.

    python tests/real/record_kineto.py OUT [--schedule 1f1b|interleaved_1f1b] [--microbatches 6] [--steps 3]

Writes OUT/rank-0.json.gz … rank-2.json.gz, without the events of single ATen calls, so that the files stay small. The
1F1B order is ppsim's own, handed to the multi-stage runtime as a CSV file: ``Schedule1F1B`` itself emits no ``PP:`` spans.
Made with PyTorch 2.13.0 (CPU).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import tempfile
from pathlib import Path

RANKS, WIDTH, DEPTH, ROWS = 3, 512, 4, 64


def order(ranks: int, microbatches: int) -> list[list[str]]:
    """1F1B's order as PyTorch's compute-only CSV."""
    rows = []
    for rank in range(ranks):
        warm = min(ranks - 1 - rank, microbatches)
        row = [f"{rank}F{k}" for k in range(warm)]
        for k in range(microbatches - warm):
            row += [f"{rank}F{warm + k}", f"{rank}B{k}"]
        rows.append(row + [f"{rank}B{k}" for k in range(microbatches - warm, microbatches)])
    return rows


def main(rank: int, port: int, out: str, options: argparse.Namespace) -> None:
    """One process: its stages, the steps, the trace."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
    from torch.profiler import ProfilerActivity, profile, schedule

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    chunks = 2 if options.schedule == "interleaved_1f1b" else 1
    total = RANKS * chunks
    modules, stages = [], []
    for chunk in range(chunks):
        index = chunk * RANKS + rank
        module = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)))
        modules.append(module)
        stages.append(PipelineStage(module, index, total, torch.device("cpu")))
    loss = torch.nn.MSELoss()
    if chunks > 1:
        runner = ScheduleInterleaved1F1B(stages, options.microbatches, loss_fn=loss)
    else:
        runner = _PipelineScheduleRuntime(stages, options.microbatches, loss_fn=loss)
        with tempfile.NamedTemporaryFile("w", suffix=".csv", delete=False, newline="") as file:
            csv.writer(file).writerows(order(RANKS, options.microbatches))
        runner._load_csv(file.name)
    optimizer = torch.optim.SGD((p for module in modules for p in module.parameters()), lr=1e-3)
    data = torch.randn(ROWS * options.microbatches, WIDTH)

    def write(prof: object) -> None:
        prof.export_chrome_trace(f"{out}/raw-{rank}.json")  # type: ignore[attr-defined]

    plan = schedule(wait=1, warmup=1, active=options.steps)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=write) as prof:
        for _ in range(options.steps + 2):
            dist.barrier()
            optimizer.zero_grad()
            if rank == 0:
                runner.step(data)
            else:
                runner.step(target=data) if rank == RANKS - 1 else runner.step()
            optimizer.step()
            prof.step()
    dist.barrier()
    dist.destroy_process_group()


def shrink(out: Path, rank: int) -> None:
    """Without single ATen calls and without what differs from machine to machine only, gzipped."""
    raw = out / f"raw-{rank}.json"
    trace = json.loads(raw.read_text())
    raw.unlink()
    trace["traceEvents"] = [
        event
        for event in trace["traceEvents"]
        if event.get("cat") not in ("cpu_op", "python_function", "fwdbwd", "ac2g")
    ]
    trace["distributedInfo"] = {
        key: trace.get("distributedInfo", {}).get(key) for key in ("backend", "rank", "world_size")
    }
    for key in ("deviceProperties", "traceName", "cpuInfo"):
        trace.pop(key, None)
    with gzip.GzipFile(out / f"rank-{rank}.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(trace, separators=(",", ":")).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--schedule", choices=["1f1b", "interleaved_1f1b"], default="1f1b")
    parser.add_argument("--microbatches", type=int, default=6)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--port", type=int, default=29613)
    parser.add_argument("--keep-all", action="store_true")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    import torch.multiprocessing as processes

    processes.spawn(main, (chosen.port, str(chosen.out), chosen), nprocs=RANKS)
    for number in range(RANKS):
        if not chosen.keep_all:
            shrink(chosen.out, number)

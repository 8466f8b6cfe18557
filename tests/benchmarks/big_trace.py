"""How long a profiler's trace of a gigabyte takes to read, and how much memory: ``python -m tests.benchmarks.big_trace``.

It is made of the recorded pipeline of three ranks, its steps repeated and moved on in time: nothing but pipeline, which is
what costs most memory. ``--bytes`` makes another size.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "data" / "traces" / "kineto-1f1b"
APART_US = 3e6
READ = """
import resource, sys, time
from pathlib import Path
from ppsim.analysis.measured.result import as_result
from ppsim.formats.traces import read_trace
began = time.perf_counter()
found = read_trace(Path(sys.argv[1]))
read = time.perf_counter() - began
as_result(found).summary
whole = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"{len(found.rows):,} spans: read in {read:.0f} s, summed up in {whole:.0f} s, {peak:.2f} GiB at most")
"""


def make(folder: Path, size: int) -> None:
    """Three files of so many bytes together."""
    ranks = [json.loads(gzip.decompress(path.read_bytes())) for path in sorted(RECORDED.iterdir())]
    spans = [
        [
            (json.dumps({key: value for key, value in event.items() if key != "ts"})[:-1], event["ts"])
            for event in rank["traceEvents"]
            if event.get("cat") == "user_annotation" and not event["name"].startswith("ProfilerStep")
        ]
        for rank in ranks
    ]
    once = sum(len(text) + 20 for events in spans for text, _ in events)
    for number, (rank, events) in enumerate(zip(ranks, spans, strict=True)):
        head = {key: rank[key] for key in ("distributedInfo", "baseTimeNanoseconds")}
        with (folder / f"rank-{number}.json").open("w") as file:
            file.write(f'{json.dumps(head)[:-1]}, "traceEvents": [')
            for turn in range(max(size // once, 1)):
                moved = (f'{text}, "ts": {start + turn * APART_US:.3f}}}' for text, start in events)
                file.write((",\n" if turn else "") + ",\n".join(moved))
            file.write("]}")


def main() -> None:
    """Make it, read it in a process of its own, print what that took."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.big_trace", description=__doc__)
    parser.add_argument("--bytes", type=int, default=10**9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), given.bytes)
        print(
            f"{sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e9:.2f} GB, three files: ",
            end="",
            flush=True,
        )
        subprocess.run([sys.executable, "-c", READ, folder], check=True)


if __name__ == "__main__":
    main()

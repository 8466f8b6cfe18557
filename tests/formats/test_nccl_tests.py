"""nccl-tests' output: text of several versions and JSON give the same link."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from ppsim.analysis.calibrate.link import LinkRuns, fit
from ppsim.cli.app import app
from ppsim.errors import FormatError
from ppsim.formats import nccl_tests

F = Fraction

SIZES = [2**n for n in range(10, 31, 4)]
COLUMNS = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"


def seconds(size: int, steps: int, factor: F) -> F:
    """Ring: a latency of 5 us per step, and every device's part of the bytes at 200 GB/s."""
    return steps * F(5, 10**6) + factor * size / (200 * 10**9)


def text(test: str, ranks: int, steps: int, factor: F, cells: str = "float     sum      -1", hosts: int = 1) -> str:
    """Output as nccl-tests prints it (format: NVIDIA/nccl-tests src/util.cu)."""
    lines = [
        f"# Collective test starting: {test}_perf",
        "# nThread 1 nGpus 1 minBytes 1024 maxBytes 1073741824",
        "# Using devices",
    ]
    lines += [
        f"#  Rank {r:2d} Group  0 Pid   689{r} on host-{r * hosts // ranks} device  {r} [0000:04:00] NVIDIA H100 80GB HBM3"
        for r in range(ranks)
    ]
    lines += [
        COLUMNS,
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    ]
    for size in SIZES:
        t = float(seconds(size, steps, factor))
        row = f"{t * 1e6:.2f}  {size / t / 1e9:.4f}  {float(factor) * size / t / 1e9:.4f}  0"
        lines.append(f"{size}  {size // 4}  {cells}  {row}  {row}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 70.742"])


@pytest.mark.parametrize(
    ("test", "ranks", "steps", "factor"),
    [
        ("all_reduce", 8, 14, F(14, 8)),  # 2 (n-1) steps, each of 1/n of the bytes
        ("all_gather", 8, 7, F(7, 8)),
        ("reduce_scatter", 4, 3, F(3, 4)),
        ("broadcast", 4, 3, F(1)),
        ("alltoall", 4, 1, F(3, 4)),
        ("sendrecv", 2, 1, F(1)),
    ],
)
def test_latency_and_bandwidth_of_a_collective_come_out(test, ranks, steps, factor):
    found = fit(nccl_tests.read(text(test, ranks, steps, factor), "nccl.txt"))
    assert (found.runs.collective, found.runs.devices, found.steps) == (test, ranks, steps)
    assert float(found.latency) == pytest.approx(5e-6, rel=2e-3)
    assert float(found.bandwidth) == pytest.approx(200e9, rel=2e-3)
    assert max(map(abs, found.residuals)) < 5e-3
    assert found.key == "intra_node"


@pytest.mark.parametrize("cells", ["float     sum      -1", "float    none", "float"])
def test_columns_that_a_version_lacks_are_not_missed(cells):
    found = fit(nccl_tests.read(text("sendrecv", 2, 1, F(1), cells, hosts=2), "nccl.txt"))
    assert float(found.bandwidth) == pytest.approx(200e9, rel=2e-3)
    assert found.key == "inter_node"


def test_timestamps_are_not_figures():
    stamped = text("sendrecv", 2, 1, F(1)).replace(COLUMNS, COLUMNS + "           timestamp")
    stamped = "\n".join(line + "  2025-01-01 12:00:00" if line[:1].isdigit() else line for line in stamped.splitlines())
    assert float(fit(nccl_tests.read(stamped, "nccl.txt")).bandwidth) == pytest.approx(200e9, rel=2e-3)


def as_json(test: str, ranks: int, steps: int, factor: F) -> str:
    """What `-J FILE` writes (version 2: NVIDIA/nccl-tests src/util.cu)."""

    def row(size: int) -> dict:
        t = float(seconds(size, steps, factor))
        figures = {"time": t * 1e6, "alg_bw": size / t / 1e9, "bus_bw": float(factor) * size / t / 1e9, "nwrong": 0.0}
        return {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": figures,
                "in_place": figures, "actual_iterations": 20, "experiment_name": f"{test}_perf"}  # fmt: skip

    devices = [{"rank": 0, "group": 0, "pid": 1, "hostname": "a", "device": 0, "device_info": "NVIDIA H100"}]
    config = {"nthreads": 1, "ngpus": ranks, "devices": devices}
    return json.dumps(
        {"version": 2, "args": [f"./build/{test}_perf"], "config": config, "results": [row(s) for s in SIZES]}
    )


def test_json_gives_what_text_gives():
    found = fit(nccl_tests.read(as_json("all_reduce", 8, 14, F(14, 8)), "nccl.json"))
    assert (found.runs.devices, found.steps) == (8, 14)  # one process of 8 GPUs lists one device
    assert float(found.latency) == pytest.approx(5e-6, rel=1e-3)
    assert float(found.bandwidth) == pytest.approx(200e9, rel=1e-3)


MEASURED = [
    (131072, "159.3", "0.82", "1.54"), (1048576, "203.2", "5.16", "9.68"), (33554432, "1059.9", "31.66", "59.36"),
    (268435456, "2360.9", "113.70", "213.19"), (1073741824, "6759.0", "158.86", "297.86"),
    (8589934592, "47535", "180.71", "338.82"),
]  # fmt: skip
"""All-reduce of 16 H100 on two hosts. Source: lessizzmore/create-a3mega-ztan-fork@02dd8f4 ztan-NCCL-test-result."""


def test_the_number_of_devices_follows_from_the_bandwidths_where_none_is_listed():
    rows = [f"{s} {s // 4} float sum -1 {t} {a} {b} 0 {t} {a} {b} 0" for s, t, a, b in MEASURED]
    runs = nccl_tests.read("\n".join([COLUMNS, *rows]), "nccl.txt", "all_reduce")
    assert runs.devices == 16  # 338.82 / 180.71 = 1.875 = 2 · 15/16
    assert max(map(abs, fit(runs).residuals)) > 0.2  # NCCL changes its protocol on the way: the fit doesn't hide it
    large = fit(runs.at_least(F(10**8)))
    assert max(map(abs, large.residuals)) < 0.1
    assert large.seconds(8589934592) == pytest.approx(47.5e-3, rel=0.05)


def test_a_fit_below_zero_latency_has_none():
    runs = LinkRuns([(10**6, F(9, 10**6)), (10**9, F(11, 10**3))])  # faster at small sizes than at large ones
    assert fit(runs).latency == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no sizes with their times"),
        ("{", "not JSON"),
        ("{}", "no 'results'"),
        ('{"results": [{"size": 8}]}', "results[0]: lacks its size, or the time of it"),
        ('{"results": [{"size": 8, "in_place": {"time": "nan", "alg_bw": 1, "bus_bw": 1}}]}', "'nan' is not a number"),
        (f"{COLUMNS}\n8 2 float sum -1 5.0 0.1 x 0 5.0 0.1 0.1 0", "nccl.txt:2: 'x' is not a number"),
        (f"{COLUMNS}\n8 2 float sum -1 5.0 0.1 0.1 0 5.0 0.1 0.1 0", "one size alone"),
        (f"{COLUMNS}\n8 2 float sum -1 5.0 1 1 0 5.0 1 1 0\n80 2 float sum -1 0.5 1 1 0 0.5 1 1 0", "don't grow with the size"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(content, message):
    with pytest.raises(FormatError) as error:
        fit(nccl_tests.read(content, "nccl.txt"))
    assert message in str(error.value)


def test_an_unknown_collective_is_told():
    with pytest.raises(FormatError, match="unknown collective 'allreduce'; did you mean 'all_reduce'"):
        nccl_tests.read("", "nccl.txt", "allreduce")


def test_the_command_writes_a_link_that_a_config_takes(tmp_path):
    (tmp_path / "nccl.txt").write_text(text("sendrecv", 2, 1, F(1), hosts=2))
    said = CliRunner().invoke(app, ["calibrate", "link", str(tmp_path / "nccl.txt"), "-o", str(tmp_path / "link.yaml")])
    assert said.exit_code == 0
    remark, row = (tmp_path / "link.yaml").read_text().splitlines()
    assert row.startswith("inter_node: {bandwidth: 200 GB/s, latency: 5") and remark.startswith(
        "# sendrecv of 2, 6 sizes"
    )
    found = json.loads(CliRunner().invoke(app, ["calibrate", "link", str(tmp_path / "nccl.txt"), "--json"]).output)
    assert found["bandwidth_bytes_per_s"] == 200e9 and len(found["sizes"]) == 6

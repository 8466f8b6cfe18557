"""The catalog: every row is complete, readable and sourced, and its figures are those of its source.

The tables restate published figures in SI units, by hand, so that a row with a unit wrong (bits for bytes, both
directions for one, GiB for GB) fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

import pytest

from ppsim import units
from ppsim.costs.transformer import TransformerModel
from ppsim.hardware import catalog

GB, GIB, TERA = 10**9, 2**30, 10**12

DEVICES = sorted(catalog.devices())
LINKS = sorted(catalog.links())
MODELS = sorted(catalog.models())

Dimension = Literal["time", "size", "bandwidth", "rate"]
DEVICE_UNITS: dict[str, Dimension] = {"memory": "size", "peak_flops": "rate", "memory_bandwidth": "bandwidth"}
LINK_UNITS: dict[str, Dimension] = {"bandwidth": "bandwidth", "latency": "time", "overhead": "time"}

REQUIRED = {
    "device": {"memory", "peak_flops", "peak_dtype", "source"},
    "link": {"class", "scope", "bandwidth", "latency", "source"},
    "model": {"layers", "hidden", "heads", "vocabulary", "sequence", "source"},
}
OPTIONAL = {
    "device": {"peaks", "memory_bandwidth", "note"},
    "link": {"overhead", "note"},
    "model": {*TransformerModel.model_fields, "note"},
}


def si(row: Mapping[str, Any], key: str, dimension: Dimension) -> Fraction:
    return units.parse(row[key], dimension)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, names in (("device", DEVICES), ("link", LINKS), ("model", MODELS)) for name in names],
)
def test_a_row_has_its_columns_and_a_source(kind: str, name: str) -> None:
    row = catalog.row(kind, name)
    assert REQUIRED[kind] <= row.keys() <= REQUIRED[kind] | OPTIONAL[kind]
    assert row["source"].strip()
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name), "lowercase with dashes, as in `cluster.inter_node: ib-hdr`"


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_has_readable_units(name: str) -> None:
    row = catalog.devices()[name]
    for key in DEVICE_UNITS.keys() & row.keys():
        assert si(row, key, DEVICE_UNITS[key]) > 0
    assert row["peak_dtype"] in {"fp32", "fp16", "bf16"}
    peaks = {dtype: units.parse(rate, "rate") for dtype, rate in row.get("peaks", {}).items()}
    peaks[row["peak_dtype"]] = si(row, "peak_flops", "rate")
    # Narrower types are never slower: fp32 <= tf32 <= 16 bits <= fp8.
    rates = [peaks[dtype] for dtype in ("fp32", "tf32", "bf16", "fp16", "fp8") if dtype in peaks]
    assert rates == sorted(rates)


@pytest.mark.parametrize("name", LINKS)
def test_a_link_has_readable_units_and_joins_what_its_class_joins(name: str) -> None:
    row = catalog.links()[name]
    for key in LINK_UNITS.keys() & row.keys():
        assert si(row, key, LINK_UNITS[key]) > 0
    # NVLink and PCIe end at the node's walls; Ethernet and InfiniBand connect nodes.
    assert (row["class"], row["scope"]) in {
        ("ethernet", "inter"),
        ("infiniband", "inter"),
        ("nvlink", "intra"),
        ("pcie", "intra"),
    }


LINK_FACTS = [
    # One way, bytes/s = Gbit/s x 10^9 / 8: IEEE 802.3.
    ("ethernet-1g", 125 * 10**6, "1 / 8 GB/s"),
    ("ethernet-10g", 1.25 * GB, "10 / 8 GB/s"),
    ("ethernet-25g", 3.125 * GB, "25 / 8 GB/s"),
    ("ethernet-40g", 5 * GB, "40 / 8 GB/s"),
    ("ethernet-50g", 6.25 * GB, "50 / 8 GB/s"),
    ("ethernet-100g", 12.5 * GB, "100 / 8 GB/s"),
    ("ethernet-200g", 25 * GB, "200 / 8 GB/s"),
    ("ethernet-400g", 50 * GB, "400 / 8 GB/s"),
    # 4 lanes: signalling rate x line coding / 8.
    ("ib-qdr", 4 * GB, "4 x 10 Gbit/s x 8/10 / 8"),
    ("ib-fdr", 6.8175 * GB, "4 x 14.0625 Gbit/s x 64/66 = 54.54 Gbit/s, / 8"),
    ("ib-edr", 12.5 * GB, "100 / 8 GB/s"),
    ("ib-hdr", 25 * GB, "200 / 8 GB/s: Megatron-LM, SC 2021; Calculon counts 25 GB/s too"),
    ("ib-ndr", 50 * GB, "400 / 8 GB/s: Llama 3's 400 Gbps"),
    ("ib-xdr", 100 * GB, "800 / 8 GB/s"),
    # All links of a GPU, one way: stas00/ml-engineering@744d01e network/README.md.
    ("nvlink1", 80 * GB, "P100: 4 links x 20 GB/s"),
    ("nvlink2", 150 * GB, "V100: 6 links x 25 GB/s"),
    ("nvlink3", 300 * GB, "A100: 12 links x 25 GB/s, half of the 600 GB/s on the data sheet"),
    ("nvlink4", 450 * GB, "H100: 18 links x 25 GB/s, half of 900"),
    ("nvlink5", 900 * GB, "B200: 18 links x 50 GB/s, half of 1800"),
    # 16 lanes x GT/s x 128/130 / 8, one way: 15.754, 31.508 and 63.015 GB/s, which tables print as:
    ("pcie3", 15.75 * GB, "16 x 8 x 128/130 / 8"),
    ("pcie4", 31.5 * GB, "16 x 16 x 128/130 / 8 (ml-engineering cuts it to 31)"),
    ("pcie5", 63 * GB, "16 x 32 x 128/130 / 8"),
]


@pytest.mark.parametrize(("name", "bytes_per_s", "reason"), LINK_FACTS)
def test_a_link_has_its_published_bandwidth(name: str, bytes_per_s: float, reason: str) -> None:
    assert si(catalog.links()[name], "bandwidth", "bandwidth") == Fraction(bytes_per_s), reason


def test_every_link_is_checked_against_a_figure() -> None:
    assert sorted(name for name, *_ in LINK_FACTS) == LINKS


# NCCL's hop latencies, ring and Simple protocol (NVIDIA/nccl@5067397 src/graph/tuning.cc), in us; Ethernet that
# is older than NCCL's networks is measured: NetPIPE 23 us, Hurwitz and Feng 2003 20 us.
HOP_US = {"nvlink": "3.4", "pcie": "5.7", "infiniband": "14", "ethernet": "14"}
MEASURED_US = {"ethernet-1g": "23", "ethernet-10g": "20"}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_has_the_latency_of_its_source(name: str) -> None:
    row = catalog.links()[name]
    micros = MEASURED_US.get(name, HOP_US[row["class"]])
    assert si(row, "latency", "time") == Fraction(micros) / 10**6


DEVICE_FACTS = [
    # memory in bytes, peak in FLOP/s. "GB" on a data sheet is read as 10^9; Google prints GiB.
    ("k80", 12 * GB, 4.37, "half of the board's 8.74 TFLOP/s and 24 GB"),
    ("titan-x", 12 * GB, 6.6, "2 x 3072 cores x 1.075 GHz = 6.605 TFLOP/s; memory: PipeDream"),
    ("p40", 24 * GB, 11.76, "2 x 3840 cores x 1.531 GHz = 11.758 TFLOP/s"),
    ("p100-16gb", 16 * GB, 21.22, "SXM2: 4 x 3584 cores x 1.480 GHz = 21.217 TFLOP/s in fp16"),
    ("p100-pcie-16gb", 16 * GB, 19.05, "4 x 3584 cores x 1.329 GHz = 19.05 TFLOP/s in fp16"),
    ("v100-16gb", 16 * GB, 125, "NVIDIA; cli99/llm-analysis@d841e40"),
    ("v100-32gb", 32 * GB, 125, "as above, later boards"),
    ("t4", 16 * GB, 65, "NVIDIA: 65 TFLOP/s in fp16"),
    ("a10", 24 * GB, 125, "NVIDIA: 125 TFLOP/s dense"),
    ("l40s", 48 * GB, 362, "NVIDIA: 362.05 TFLOP/s dense"),
    ("a100-40gb", 40 * GB, 312, "NVIDIA: 312 TFLOP/s dense, half of the 624 with sparsity"),
    ("a100-80gb", 80 * GB, 312, "as above; stas00/ml-engineering@744d01e"),
    ("h100-80gb", 80 * GB, 989, "stas00/ml-engineering@744d01e, half of the 1979 with sparsity"),
    ("h200-141gb", 141 * GB, 989, "the H100's compute with more memory: same source"),
    ("b200-180gb", 180 * GB, 2250, "same source, half of the 4500 with sparsity; memory: 1440 GB in a DGX of 8"),
    ("gb200-186gb", 186 * GB, 2500, "stas00/ml-engineering@0074473, half of the 5000 with sparsity"),
    ("mi250x", 64 * GB, 191.5, "half of the module's 383 TFLOP/s and 128 GB"),
    ("mi300x", 192 * GB, 1307, "AMD: 1307.4 TFLOP/s dense"),
    ("tpu-v2", 8 * GB, 22.5, "GPipe: 8 GB per accelerator; 180 TFLOP/s / 8 cores"),
    ("tpu-v3", 16 * GIB, 61.5, "cloud.google.com/tpu/docs/v3: half of a chip's 32 GiB and 123 TFLOP/s"),
    ("tpu-v4", 32 * GIB, 275, "cloud.google.com/tpu/docs/v4"),
    ("tpu-v5e", 16 * GB, 197, "docs.cloud.google.com/tpu/docs/v5e"),
    ("tpu-v5p", 95 * GB, 459, "cloud.google.com/tpu/docs/v5p"),
]


@pytest.mark.parametrize(("name", "memory", "tflops", "reason"), DEVICE_FACTS)
def test_a_device_has_its_published_memory_and_peak(name: str, memory: int, tflops: float, reason: str) -> None:
    row = catalog.devices()[name]
    assert si(row, "memory", "size") == memory, reason
    assert si(row, "peak_flops", "rate") == Fraction(str(tflops)) * TERA, reason


def test_every_device_is_checked_against_a_figure() -> None:
    assert sorted(name for name, *_ in DEVICE_FACTS) == DEVICES


@pytest.mark.parametrize(
    ("name", "gb_per_s", "reason"),
    [
        ("k80", 240, "half of the board's 480 GB/s (sysrqmts.com: 240.6)"),
        ("p40", 346, "384 bit x 7.2 Gbit/s / 8 = 345.6 GB/s; 694 would be GDDR5X"),
        ("p100-16gb", 732, "sysrqmts.com"),
        ("v100-16gb", 900, "cli99/llm-analysis@d841e40"),
        ("a100-40gb", 1555, "5120 bit x 2.43 Gbit/s / 8 = 1555.2 GB/s"),
        ("a100-80gb", 2039, "NVIDIA data sheet, SXM (ml-engineering rounds to 2.0 TB/s)"),
        ("h100-80gb", 3350, "stas00/ml-engineering@744d01e"),
        ("h200-141gb", 4800, "NVIDIA: 4.8 TB/s"),
        ("tpu-v3", 450, "half of a chip's 900 GB/s"),
        ("tpu-v4", 1200, "cloud.google.com/tpu/docs/v4"),
    ],
)
def test_a_device_has_its_published_memory_bandwidth(name: str, gb_per_s: int, reason: str) -> None:
    assert si(catalog.devices()[name], "memory_bandwidth", "bandwidth") == gb_per_s * GB, reason


@pytest.mark.parametrize(
    ("kind", "name", "start"),
    [
        ("link", "ib-hdrr", "unknown link 'ib-hdrr'; did you mean 'ib-hdr'? Known: ethernet-1g, "),
        ("device", "A100-80GB", "unknown device 'A100-80GB'; did you mean 'a100-80gb'? Known: k80, "),
        ("model", "llama-2-77b", "unknown model 'llama-2-77b'; did you mean 'llama-2-7b'? Known: gpt-1.7b, "),
        ("link", "carrier pigeon", "unknown link 'carrier pigeon'. Known: ethernet-1g, "),
        ("link", "\x1b[2J", "unknown link '\\x1b[2J'. Known: "),  # shown, not obeyed by a terminal
        ("link", "", "unknown link ''. Known: "),
    ],
)
def test_an_unknown_name_is_answered_with_what_there_is(kind: str, name: str, start: str) -> None:
    with pytest.raises(ValueError) as error:
        catalog.row(kind, name)
    message = str(error.value)
    assert message.startswith(start)
    table = {"device": DEVICES, "link": LINKS, "model": MODELS}[kind]
    assert sorted(message.partition("Known: ")[2].split(", ")) == table  # all of them, each once


def test_a_models_dashes_may_be_left_out() -> None:
    assert catalog.row("model", "llama3-70b") is catalog.row("model", "llama-3-70b")


def test_rows_are_shared_and_read_only() -> None:
    row: Any = catalog.row("link", "ib-hdr")
    assert row is catalog.links()["ib-hdr"]  # read once
    with pytest.raises(TypeError):
        row["bandwidth"] = "200 GB/s"
    table: Any = catalog.links()
    with pytest.raises(TypeError):
        table["mine"] = row


def test_importing_the_catalog_reads_no_file() -> None:
    """`ppsim --help` imports it and needs no row; a file takes some 20 ms to parse."""
    code = "from ppsim.hardware import catalog; raise SystemExit(catalog._table.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", catalog.KINDS)
def test_rows_that_are_read_by_themselves_are_those_of_the_whole_file(kind):
    from importlib.resources import files

    from ruamel.yaml import YAML

    text = files(catalog).joinpath(catalog.KINDS[kind]).read_text(encoding="utf-8")
    whole = YAML(typ="safe", pure=True).load(text)
    assert {name: dict(catalog.row(kind, name)) for name in whole} == whole

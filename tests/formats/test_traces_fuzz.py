"""A thousand damaged traces: each is read, or refused with a reason; never a traceback."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

import ppsim
from ppsim.analysis.measured.fit import fit
from ppsim.analysis.measured.result import as_result
from ppsim.errors import PpsimError
from ppsim.formats import that
from ppsim.formats.traces import read_trace

for needed in ("pyarrow", "ijson", "scipy"):
    pytest.importorskip(needed)

DATA = Path(__file__).parents[1] / "data" / "traces"
CASES = 200
"""Per kind of trace."""
CONFIG = """
schedule: 1f1b
pipeline: {ranks: 2, microbatches: 3}
costs: {forward: 1 ms, backward: 2 ms, message: 1 MB, optimizer: 1 ms}
cluster: {ranks_per_node: 8, intra_node: {bandwidth: 100 GB/s, latency: 2 us}}
"""
NASTY = [
    b"-1", b"1e999", b"NaN", b"null", b"true", b"[]", b"{}", b'""', b'"\\u0000"', b"99999999999999999999", b"0.5", b"-0",
    b"9" * 400, b",", b"}", b"]", b'"', b"\x00", b"\xff\xfe", b"1e-400", b"2147483648", b"-9223372036854775808",
]  # fmt: skip


def mutated(raw: bytes, chance: random.Random) -> bytes:
    """The bytes with one to four things wrong: cut, swapped, repeated, another number, other bytes."""
    for _ in range(chance.randint(1, 4)):
        if not raw:
            return raw
        a, b = sorted(chance.randrange(len(raw) + 1) for _ in range(2))
        what = chance.randrange(7)
        if what == 0:
            raw = raw[:a]
        elif what == 1:
            raw = raw[:a] + raw[min(b, a + 40) :]
        elif what == 2:
            raw = raw[:a] + raw[a : a + 60] + raw[a:]
        elif what == 3:
            raw = raw[:a] + chance.choice(NASTY) + raw[a:]
        elif what == 4:
            raw = _number(raw, chance)
        elif what == 5:
            flipped = bytearray(raw)
            for _ in range(chance.randint(1, 6)):
                flipped[chance.randrange(len(flipped))] = chance.randrange(256)
            raw = bytes(flipped)
        else:
            raw = raw[b:] + raw[:b]
    return raw


def _number(raw: bytes, chance: random.Random) -> bytes:
    """Another value in place of a number."""
    digits = [i for i in range(len(raw)) if raw[i : i + 1].isdigit() and not raw[i - 1 : i].isdigit()]
    if not digits:
        return raw
    start = chance.choice(digits)
    end = start
    while end < len(raw) and raw[end : end + 1] in b"0123456789.":
        end += 1
    return raw[:start] + chance.choice(NASTY) + raw[end:]


def _small(folder: Path) -> dict[str, Path]:
    """A small trace of each kind."""
    (folder / "x.yaml").write_text(CONFIG)
    result = ppsim.simulate(ppsim.load(folder / "x.yaml"))
    with (folder / "trace.json").open("w") as stream:
        that("export")["chrome-trace"].run(result, stream)
    (folder / "tables").mkdir()
    result.tasks.to_csv(folder / "tables" / "tasks.csv", index=False)
    result.transfers.to_csv(folder / "tables" / "transfers.csv", index=False)
    primus = folder / "primus"
    shutil.copytree(DATA / "primus-pp8", primus)
    for path in primus.glob("pp_rank_*.json"):
        content = json.loads(path.read_text())
        path.write_text(json.dumps({step: content[step] for step in ("3", "5")}))
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(DATA / "trace-ST.parquet")
    pq.write_table(table.filter(pc.less(table["step"], 26)), folder / "trace-X.parquet")
    (folder / "meta-X.yaml").write_text("pp_size: 4\ndp_size: 2\nvpp_size: 1\n")
    kineto = folder / "kineto"
    kineto.mkdir()
    for path in (DATA / "kineto-1f1b").iterdir():
        shutil.copyfile(path, kineto / path.name)
    return {
        "trace": folder / "trace.json", "tasks": folder / "tables", "primus": primus,
        "ndtimeline": folder / "trace-X.parquet", "kineto": kineto,
    }  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return _small(tmp_path_factory.mktemp("small"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["trace", "tasks", "primus", "ndtimeline", "kineto"])
def test_damaged_traces_are_read_or_refused(kind: str, small: dict[str, Path], tmp_path: Path) -> None:
    import gzip

    source, refused, read = small[kind], 0, 0
    for seed in range(CASES):
        chance = random.Random(f"{kind} {seed}")
        target = tmp_path / f"{seed}-{source.name}"
        if source.is_dir():
            shutil.copytree(source, target)
            victim = chance.choice(sorted(target.iterdir()))
        else:
            shutil.copyfile(source, target)
            victim = target
            meta = source.with_name("meta-X.yaml")
            if kind == "ndtimeline":
                beside = target.with_name(f"{target.stem.replace('trace', 'meta', 1)}.yaml")
                beside.write_bytes(mutated(meta.read_bytes(), chance) if seed % 4 == 0 else meta.read_bytes())
        raw = victim.read_bytes()
        if raw[:2] == b"\x1f\x8b" and seed % 2:
            victim.write_bytes(gzip.compress(mutated(gzip.decompress(raw), chance)))
        else:
            victim.write_bytes(mutated(raw, chance))
        try:
            found = read_trace(target)
            fit(found).summary()
            _ = as_result(found).summary
            read += 1
        except PpsimError as error:
            refused += 1
            assert str(error).strip(), seed
    assert read and refused, (read, refused)

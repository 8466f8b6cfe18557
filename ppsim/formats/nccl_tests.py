"""Output of nccl-tests (and rccl-tests), as text or as JSON: the time of a collective for every size.

A text row ends in time, algbw, busbw and #wrong, out of place and then in place; what stands before differs between
tests and versions. Times are microseconds; what each device sends over the size is busbw / algbw. Out of place counts,
in place where that is all there is.
Source: NVIDIA/nccl-tests src/util.cu and doc/PERFORMANCE.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from ppsim.analysis.calibrate.link import STEPS, LinkRuns
from ppsim.errors import FormatError, did_you_mean, shown
from ppsim.formats.base import file_format

LIMIT = 16 << 20
MICRO = 10**6
RANK = re.compile(r"#?\s*Rank\s+(?P<rank>\d+)\s.*?\son\s+(?P<host>\S+)\s+device\b")
HEADER = re.compile(r"#\s+size\s+count\s+type\b.*")
TEST = re.compile(r"\b(?P<name>[a-z_]+)_perf(?:_mpi)?\b")
PART = ("all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter")
SENT: dict[str, Callable[[int], Fraction]] = {
    "all_reduce": lambda n: Fraction(2 * (n - 1), n), **dict.fromkeys(PART, lambda n: Fraction(n - 1, n))
}  # fmt: skip
"""What each of n devices sends over the size, where it isn't all of it."""


class Row(NamedTuple):
    """A size's time and its two bandwidths."""

    size: int
    seconds: Fraction
    algorithm: Fraction
    bus: Fraction


@file_format("nccl-tests", does="link", what="times of collectives by size, text or JSON (ppsim calibrate link)")
def read(text: str, label: str, collective: str | None = None) -> LinkRuns:
    """The measured times; ``collective``: which it was, where the file doesn't tell. Raises FormatError."""
    if collective is not None and collective not in STEPS:
        raise FormatError(
            f"unknown collective {shown(collective)}{did_you_mean(collective, STEPS)}; {', '.join(STEPS)}"
        )
    rows, name, devices, hosts = _json(text, label) if text.lstrip().startswith("{") else _text(text, label)
    if not rows:
        raise FormatError(f"{label}: no sizes with their times; nccl-tests prints 'size count type … time algbw busbw'")
    collective = collective or (name if name in STEPS else None)
    largest = max(rows, key=lambda row: row.size)
    factor = largest.bus / largest.algorithm if largest.algorithm else Fraction(1)
    if collective is not None and collective in SENT:
        devices = devices or _how_many(factor / (2 if collective == "all_reduce" else 1))
        factor = SENT[collective](devices)
    times = [(row.size, row.seconds) for row in rows]
    return LinkRuns(times, collective, factor, devices, len(hosts) or None)


def _how_many(part: Fraction) -> int:
    """n of (n-1)/n, to the digits that a bandwidth is printed with."""
    return max(2, round(1 / (1 - part))) if part < 1 else 2


def _text(text: str, label: str) -> tuple[list[Row], str | None, int | None, set[str]]:
    rows, hosts, ranks = [], set(), set()
    name: str | None = None
    columns: list[str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if HEADER.match(stripped):
            names = stripped.lstrip("# ").split()
            columns = names[next((i for i, n in enumerate(names) if n.endswith("time")), len(names)) :]
        elif found := RANK.match(stripped):
            ranks.add(int(found["rank"]))
            hosts.add(found["host"])
        elif columns and re.match(r"[0-9]+\s+[0-9]+\s+[a-z]", stripped):
            row = _row(stripped.split(), columns, f"{label}:{number}")
            rows += [row] if row is not None else []
        elif test := TEST.search(stripped):
            name = test["name"]
    return rows, name, len(ranks) or None, hosts


def _row(cells: list[str], columns: list[str], where: str) -> Row | None:
    """A row by what its columns, from the first time on, are called; None for a size of nothing."""
    if "timestamp" in columns:
        cells, columns = cells[:-2], [name for name in columns if name != "timestamp"]
    values = dict(zip(columns[:3], cells[len(cells) - len(columns) :], strict=False))
    if len(cells) < len(columns) + 3 and len(cells) == 3 + len(columns) // 2:  # in place alone
        values = dict(zip(columns[:3], cells[3:], strict=False))
    numbers = [_number(values.get(key, ""), where) for key in (columns[0], "algbw", "busbw")]
    return _sized(int(cells[0]), numbers)


def _sized(size: int, numbers: list[Fraction]) -> Row | None:
    micros, algorithm, bus = numbers
    return Row(size, micros / MICRO, algorithm, bus) if size and micros else None


def _number(text: object, where: str) -> Fraction:
    try:
        value = Fraction(str(text))
    except (ValueError, ZeroDivisionError):
        raise FormatError(f"{where}: {shown(text)} is not a number") from None
    if value < 0:
        raise FormatError(f"{where}: {shown(text)} is negative")
    return value


def _json(text: str, label: str) -> tuple[list[Row], str | None, int | None, set[str]]:
    try:
        data: Any = json.loads(text, parse_float=str)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"{label}: not JSON: {error}") from None
    results = data.get("results")
    if not isinstance(results, list):
        raise FormatError(f"{label}: no 'results'; nccl-tests writes them with -J FILE")
    rows = [row for index, result in enumerate(results) if (row := _json_row(result, f"{label}: results[{index}]"))]
    config = data.get("config")
    devices = config.get("devices") if isinstance(config, dict) else None
    listed = [device for device in devices or [] if isinstance(device, dict)]
    hosts = {str(device["hostname"]) for device in listed if "hostname" in device}
    words = [*(data.get("args") or []), *(r.get("experiment_name") for r in results if isinstance(r, dict))]
    tests = [found["name"] for word in words if isinstance(word, str) and (found := TEST.search(word))]
    return rows, next(iter(tests), None), _devices(config, len(listed)), hosts


def _devices(config: object, listed: int) -> int | None:
    """How many there were: one is listed per process, each of which may have several."""
    sizes = config if isinstance(config, dict) else {}
    each = [sizes.get(key, 1) for key in ("nthreads", "ngpus")]
    if all(isinstance(count, int) and count > 0 for count in each) and listed:
        return listed * int(each[0]) * int(each[1])
    return None


def _json_row(result: object, where: str) -> Row | None:
    if not isinstance(result, dict):
        raise FormatError(f"{where}: {shown(result)}, where a mapping is due")
    body = result.get("out_of_place") or result.get("in_place")
    if not isinstance(body, dict) or not isinstance(result.get("size"), int):
        raise FormatError(f"{where}: lacks its size, or the time of it")
    time = body.get("time", body.get("cpu_time"))
    return _sized(result["size"], [_number(x, where) for x in (time, body.get("alg_bw"), body.get("bus_bw"))])

"""The golden schedules of ``tests/golden`` as test cases: the orders that real frameworks run, and their oracles."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Case:
    """A golden file and what ``index.csv`` says of it, in the units of ``tests/golden/README.md``."""

    path: Path
    schedule: str
    framework: str
    version: str
    ranks: int
    microbatches: int
    virtual_stages: int
    extra: dict[str, str]
    makespan: int
    makespan_fb_serial: int
    peak_until_b_or_i: tuple[int, ...]
    peak_until_b_or_w: tuple[int, ...]

    def __str__(self) -> str:
        return self.path.stem

    def orders_text(self) -> str:
        """The order file as it is."""
        return self.path.read_text(encoding="utf-8")


def cases(*schedule_names: str) -> list[Case]:
    """The cases of these schedules, in the order of the index; all cases without a name.

    Use as ``@pytest.mark.parametrize("case", cases("gpipe"), ids=str)``. A name that no case has is a KeyError, so that
    a misspelt name doesn't leave a test without cases.
    """
    with (FOLDER / "index.csv").open(encoding="utf-8", newline="") as file:
        found = [_case(row) for row in csv.DictReader(file)]
    if missing := set(schedule_names) - {case.schedule for case in found}:
        raise KeyError(f"no golden case of {sorted(missing)}")
    return [case for case in found if not schedule_names or case.schedule in schedule_names]


def _case(row: dict[str, str]) -> Case:
    return Case(
        path=FOLDER / row["file"],
        schedule=row["schedule"],
        framework=row["framework"],
        version=row["version"],
        ranks=int(row["p"]),
        microbatches=int(row["m"]),
        virtual_stages=int(row["v"]),
        extra=dict(item.split("=", 1) for item in row["extra"].split(";") if item),
        makespan=int(row["makespan"]),
        makespan_fb_serial=int(row["makespan_fb_serial"]),
        peak_until_b_or_i=_per_rank(row["peak_until_B_or_I"]),
        peak_until_b_or_w=_per_rank(row["peak_until_B_or_W"]),
    )


def _per_rank(text: str) -> tuple[int, ...]:
    return tuple(int(value) for value in text.split("|"))

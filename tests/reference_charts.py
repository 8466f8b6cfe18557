"""Make the charts in ``results/reference/charts``: ``python -m tests.reference_charts``.

Beside each stands, as ``…-before.png``, what was drawn of the same run before ops were averaged and parts enlarged.
"""

from __future__ import annotations

from ppsim import plot
from tests import readme
from tests.plot.runs import SLOW, run

RUNS = {
    "1f1b-4x8": lambda: run("1f1b", 4, 8, cluster=SLOW),
    "bpipe-8x16": lambda: run("bpipe", 8, 16, cluster=SLOW),
    "1f1b-64x512": lambda: run("1f1b", 64, 512),
}


def main() -> None:
    """Draw them all."""
    folder = readme.ROOT / readme.REFERENCE / "charts"
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in RUNS.items():
        plot.save(plot.gantt(make()), folder / f"{name}.png")


if __name__ == "__main__":
    main()

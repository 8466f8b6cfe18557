"""How time per op grows with the size of a run: one log-log picture of the flow's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SCHEDULE = "1f1b"
"""The one that is measured at every size."""
MICROSECONDS_PER_OP = "µs of CPU time per op"


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Microseconds per op over the number of ops: orders to summary by the compiled engine, and SimPy's engine alone."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(5, 3.2), layout="constrained")
        axes = figure.subplots()
        for column, what, line in (("whole flow", "whole flow, compiled", "-"), ("SimPy", "SimPy's engine", "--")):
            for links, marker in (("free", "o"), ("ports", "s")):
                mine = [r for r in rows if r["schedule"] == SCHEDULE and r["links"] == links and r[column] != ""]
                sizes, per_op = [int(r["ops"]) for r in mine], [1 / float(r[column]) for r in mine]
                axes.loglog(sizes, per_op, line, marker=marker, label=f"{what}, {links}")
        axes.set_xlabel(f"ops ({SCHEDULE}, 8 x 64 to 1024 x 8192)")
        axes.set_ylabel(MICROSECONDS_PER_OP)
        axes.grid(which="both", alpha=0.3)
        axes.legend(fontsize=8)
        figure.savefig(path, dpi=150, metadata={"Software": None})

"""What ``ppsim calibrate`` shows: constants, and measured times beside simulated ones."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ppsim.display.console import table_of
from ppsim.units import show

if TYPE_CHECKING:
    from rich.console import Console

    from ppsim.analysis.calibrate import Calibration, LinkFit

SIZES_SHOWN = 12


def fitted(found: Calibration, console: Console) -> None:
    """Constants, then a row per run."""
    from ppsim.analysis.calibrate.fit import told

    summary = found.summary()
    table_of(
        [{"constant": key, "value": told(value, found.spread[key])} for key, value in found.constants.items()], console
    )
    console.print()
    held = found.held_out is not None
    rows = [
        {
            **{key: value for key, value in row.items() if key in run.labels or key == "line"},
            "measured": _seconds(row["measured_s"]),
            "simulated": _seconds(row["simulated_s"]),
            "residual": f"{row['residual']:+.1%}",
            **({"held out": f"{row['held_out_residual']:+.1%}"} if held else {}),
        }
        for row, run in zip(summary["runs"], found.runs, strict=True)
    ]
    table_of(rows, console, tight=True)
    console.print(f"\nresiduals: {_spread(summary, 'residual')}")
    console.print(f"of runs held out: {_spread(summary, 'held_out_residual') if held else 'no run is to spare'}")
    for note in found.notes:
        console.print(f"warning: {note}")


def link(found: LinkFit, label: str, console: Console) -> None:
    """The link as a config has it, and the fit beside the measured times."""
    console.print(found.text(label), end="")
    sizes = found.summary()["sizes"]
    step = max(1, -(-len(sizes) // SIZES_SHOWN))
    rows = [
        {
            "size": show(Fraction(row["bytes"]), "size"),
            "measured": _seconds(row["measured_s"]),
            "fitted": _seconds(row["fitted_s"]),
            "residual": f"{row['residual']:+.1%}",
        }
        for row in sizes[::-1][::step][::-1]
    ]
    console.print()
    table_of(rows, console)


def _seconds(value: float) -> str:
    return show(Fraction(f"{value:.4g}"), "time")


def _spread(summary: dict[str, Any], which: str) -> str:
    return f"{summary[f'mean_abs_{which}']:.1%} on average, at most {summary[f'max_abs_{which}']:.1%}"

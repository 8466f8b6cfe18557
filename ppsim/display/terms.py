"""A model's terms as text: ``ppsim check`` of costs from a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ppsim.config.experiment import Experiment
from ppsim.costs import TransformerCosts
from ppsim.costs.transformer.table import HEADER, tables
from ppsim.errors import printable


def lines(experiment: Experiment) -> Iterator[str]:
    """A table for each kind of layer, then what its figures follow from; nothing where costs are given."""
    if not isinstance(experiment.costs, TransformerCosts):
        return
    yield "one device, one microbatch:"
    said: dict[tuple[str, str], None] = {}
    for table in tables(experiment.costs, experiment.setting()):
        yield ""
        yield f"{printable(table.name)} x {table.layers}" if table.layers > 1 else printable(table.name)
        yield from _aligned([HEADER, *table.rows])
        yield f"  kept: {table.kept}"
        yield f"  held: {table.held}"
        said.update(dict.fromkeys(table.sources))
    yield ""
    yield "what these follow from:"
    yield from (f"  {term}: {source}" for term, source in said)


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  " + "  ".join(cells).rstrip()

"""What several commands take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class EngineName(StrEnum):
    """Which engine runs."""

    auto = "auto"
    simpy = "simpy"
    compiled = "compiled"


Config = Annotated[Path, typer.Argument(help="An experiment: a YAML file.", show_default=False)]


Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in --set pipeline.ranks=8. Repeatable."),
]


EngineOption = Annotated[EngineName, typer.Option(help="auto: SimPy up to 20,000 ops, compiled above.")]


WriteBest = Annotated[
    Path | None,
    typer.Option("--write-best", metavar="FILE", help="Write the best case's config there.", show_default=False),
]
Row = Annotated[int, typer.Option("--row", min=1, help="Of the table's rows, the one that --write-best writes.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Worker processes (default: one per core).", show_default=False)]


Cluster = Annotated[
    str | None, typer.Option(metavar="tcp://…", help="Run on the workers of this Dask cluster.", show_default=False)
]


RankBy = Annotated[
    str | None, typer.Option(metavar="FIGURE", help="What the best ten are best by.", show_default=False)
]

"""``ppsim report``: a page on which runs can be looked into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppsim.cli.files import is_trace, text_written
from ppsim.cli.options import EngineName, EngineOption, Set
from ppsim.cli.run import measured, simulated

if TYPE_CHECKING:
    from ppsim.analysis.compare import Some


def report(
    configs: Annotated[
        list[Path],
        typer.Argument(help="Experiments, results folders and traces of real runs.", show_default=False),
    ],
    set_: Set = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file.")] = Path("report.html"),
    engine: EngineOption = EngineName.auto,
) -> None:
    """Write one HTML file to look into runs: Gantt chart, memory and links to zoom into, why each op started when."""
    from ppsim.report import html

    sources = [config / "config.yaml" if (config / "config.yaml").is_file() else config for config in configs]
    text_written(output, html(*(_result(source, set_, engine) for source in sources)), sources)
    typer.echo(str(output))


def _result(source: Path, settings: list[str] | None, engine: EngineName) -> Some:
    return measured(source) if is_trace(source) else simulated(source, settings, engine)

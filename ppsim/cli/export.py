"""``ppsim export``: a run in another tool's format."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ppsim.cli.files import written
from ppsim.cli.options import Config, EngineName, EngineOption, Set
from ppsim.cli.run import simulated


def export(
    config: Config,
    format_: Annotated[str, typer.Option("--format", help="torch-csv, chrome-trace, … (`ppsim list formats`).")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File (default: standard output).")] = None,
    set_: Set = None,
    engine: EngineOption = EngineName.auto,
) -> None:
    """Write a run in another tool's format."""
    from ppsim.errors import ConfigError, did_you_mean, printable
    from ppsim.formats import that

    formats = that("export")
    if format_ not in formats:
        hint = did_you_mean(format_, formats) or ";"
        raise ConfigError(f"--format: unknown format '{printable(format_)}'{hint} known: {', '.join(formats)}")
    result = simulated(config, set_, engine)
    if output is None:
        formats[format_].run(result, sys.stdout)
        return

    def to_file(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            formats[format_].run(result, stream)

    written(output, to_file)

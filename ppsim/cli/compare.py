"""``ppsim compare``: experiments, or schedules of one, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppsim.cli.files import is_trace, written
from ppsim.cli.options import Set

if TYPE_CHECKING:
    from ppsim.analysis.compare import Some

NOT_COMPARED = {"file", "forward_only"}
"""What `--schedules all` leaves out: an order needs its file, and a stream of inference does other work."""


def compare(
    configs: Annotated[
        list[Path], typer.Argument(help="Experiments (YAML files) and traces of real runs.", show_default=False)
    ],
    schedules: Annotated[
        str | None,
        typer.Option(metavar="all|NAME,…", help="Run the first config under these schedules.", show_default=False),
    ] = None,
    set_: Set = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Picture of the Gantt charts.")] = None,
    parts: Annotated[Path | None, typer.Option(help="Picture of what each step is made of.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Set experiments, measured runs, or schedules of one experiment, side by side."""
    from ppsim.analysis.compare import compare as compared
    from ppsim.display.comparison import comparison
    from ppsim.display.console import console

    results, left_out = _results(configs, schedules, set_)
    found = compared(results)
    if json:
        import json as text

        typer.echo(text.dumps(found.rows, indent=2))
    else:
        comparison(found, console(width=170))
    for name, reason in left_out:
        typer.echo(f"left out: {name}: {reason}", err=True)
    if output is not None or parts is not None:
        from ppsim import plot

        if output is not None:
            written(output, lambda path: plot.save(plot.charts(found), path))
        if parts is not None:
            written(parts, lambda path: plot.save(plot.split(found), path))


def _result(path: Path, settings: list[str] | None) -> Some:
    from ppsim.analysis.measured.result import as_result
    from ppsim.analysis.simulate import simulate
    from ppsim.config.load import load
    from ppsim.formats.traces import read_trace

    return as_result(read_trace(path)) if is_trace(path) else simulate(load(path, settings or ()))


def _results(
    configs: list[Path], schedules: str | None, settings: list[str] | None
) -> tuple[list[Some], list[tuple[str, str]]]:
    from ppsim.analysis.simulate import simulate
    from ppsim.config.load import load
    from ppsim.errors import ConfigError, PpsimError, shown
    from ppsim.schedules import known
    from ppsim.schedules.registry import PYTORCH_NAMES, nearest

    if schedules is None:
        return [_result(config, settings) for config in configs], []
    if len(configs) > 1:
        raise ConfigError("--schedules: takes one config, whose schedule it varies")
    everything = schedules == "all"
    names = [name for name in sorted(known()) if name not in NOT_COMPARED] if everything else schedules.split(",")
    for name in names:
        if name not in known() and name not in PYTORCH_NAMES:
            hint = nearest(name) or ";"
            raise ConfigError(f"--schedules: unknown schedule {shown(name)}{hint} known: {', '.join(sorted(known()))}")
    results: list[Some] = []
    left_out: list[tuple[str, str]] = []
    for name in names:
        try:
            results.append(simulate(load(configs[0], [*(settings or ()), f"schedule={{name: {name}}}"])))
        except PpsimError as error:
            if not everything:
                raise
            left_out.append((name, str(error).splitlines()[0]))
    if not results:
        raise ConfigError("--schedules: none of them runs with this config:\n" + "\n".join(r for _, r in left_out))
    return results, left_out

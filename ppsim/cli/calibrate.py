"""``ppsim calibrate``: constants from measured step times, a link from measured messages."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from ppsim.cli.files import text_written as written
from ppsim.cli.options import Set

LINK = "link"


def calibrate(
    what: Annotated[
        list[Path],
        typer.Argument(metavar="CONFIG | link FILE", help="An experiment; or 'link' and nccl-tests' output."),
    ],
    measured: Annotated[
        Path | None,
        typer.Option(help="CSV of runs: a column per setting, and step_time.", show_default=False),
    ] = None,
    constant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY[=START]",
            help="A setting to fit, as in --constant runtime.op_overhead='10 us'. Repeatable.",
            show_default=False,
        ),
    ] = None,
    set_: Set = None,
    collective: Annotated[
        str | None,
        typer.Option(help="link: which test it was, where the file doesn't tell: all_reduce, …", show_default=False),
    ] = None,
    at_least: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="link: leave smaller messages out, as '1 MB'.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File for the calibrated experiment, or the link.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only the summary, as JSON.")] = False,
) -> None:
    """Fit a few constants to a few measured step times; or a link to measured messages (`calibrate link FILE`)."""
    from ppsim.errors import ConfigError

    if what[0] == Path(LINK) and len(what) == 2:
        _link(what[1], (collective, at_least), output, json)
        return
    if len(what) > 1 or what[0] == Path(LINK):
        raise ConfigError("calibrate takes one experiment, or 'link' and one file of nccl-tests' output")
    if measured is None:
        raise ConfigError("--measured: missing; a CSV of runs, a column per setting that differs, and step_time")
    from ppsim.analysis.calibrate import calibrated
    from ppsim.display import calibration
    from ppsim.display.console import console

    found = calibrated(what[0], measured, constant or (), set_ or ())
    if output is not None:
        written(output, found.text, (what[0], measured))
    if json:
        typer.echo(dumps(found.summary(), indent=2))
    else:
        calibration.fitted(found, console())


def _link(file: Path, which: tuple[str | None, str | None], output: Path | None, json: bool) -> None:
    from ppsim import _textfile as textfile
    from ppsim.analysis.calibrate import link
    from ppsim.display import calibration
    from ppsim.display.console import console
    from ppsim.errors import ConfigError, FormatError, printable
    from ppsim.formats import nccl_tests
    from ppsim.units import parse

    label = printable(str(file))
    collective, at_least = which
    runs = nccl_tests.read(textfile.read(file, "nccl-tests' output", nccl_tests.LIMIT), label, collective)
    try:
        runs = runs if at_least is None else runs.at_least(parse(at_least, "size"))
    except ValueError as error:
        raise ConfigError(f"--at-least: {error}") from None
    try:
        found = link.fit(runs)
    except FormatError as error:
        raise FormatError(f"{label}: {error}") from None
    if output is not None:
        written(output, found.text(label), (file,))
    if json:
        typer.echo(dumps(found.summary(), indent=2))
    else:
        calibration.link(found, label, console())

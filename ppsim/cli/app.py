"""The command line: ``ppsim run | check | list | plot | export | schema``. The only place that prints."""

from __future__ import annotations

import errno
import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppsim.cli import compare as cli_compare
from ppsim.cli import import_ as cli_import
from ppsim.cli import sweep as cli_sweep

if TYPE_CHECKING:
    from ppsim.analysis.result import Result
    from ppsim.engine.watch import Watch

DEADLOCK, WRONG_INPUT, BUG, INTERRUPTED = 1, 2, 3, 130
ESTIMATE_ABOVE = 2_000_000
BYTES_PER_OP = 200
"""What a run with free links needs by the compiled engine; with others it takes half as much again."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        from ppsim._version import __version__

        typer.echo(f"ppsim {__version__}")
        raise typer.Exit


@app.callback()
def _ppsim(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show it and exit.")
    ] = False,
) -> None:
    """A discrete-event simulator of pipeline-parallel training."""


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


def _simulated(config: Path, settings: list[str] | None, engine: EngineName) -> Result:
    """The run of an experiment, its progress shown where it takes long."""
    from ppsim.display.progress import progress

    with progress() as watch:
        return _watched(config, settings, engine, watch)


def _watched(config: Path, settings: list[str] | None, engine: EngineName, watch: Watch) -> Result:
    from ppsim.analysis.simulate import simulate
    from ppsim.config.load import load
    from ppsim.config.resolved import operations
    from ppsim.errors import ConfigError, printable

    experiment = load(config, settings or ())
    ops = operations(experiment)
    if ops > ESTIMATE_ABOVE:
        typer.echo(
            f"about {ops:,} ops: some {ops / 1e6:.0f} s with the compiled engine, {ops / 6e4:.0f} s with SimPy; "
            "Ctrl-C stops, nothing is half-written",
            err=True,
        )
    memory = _memory()
    if memory is not None and ops > (most := memory // BYTES_PER_OP):
        raise ConfigError(
            f"{printable(str(config))}: about {ops:,} ops need some {ops * BYTES_PER_OP / 2**30:,.0f} GiB of memory, "
            f"this machine has {memory / 2**30:,.0f} GiB, enough for {most:,}; are pipeline.ranks, "
            "pipeline.microbatches and pipeline.steps as meant?"
        )
    return simulate(experiment, engine=engine.value, watch=watch)


@app.command()
def run(
    config: Config,
    set_: Set = None,
    engine: EngineOption = EngineName.auto,
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: results/NAME).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only the summary, as JSON.")] = False,
    no_files: Annotated[bool, typer.Option("--no-files", help="Write nothing.")] = False,
    all_files: Annotated[bool, typer.Option("--all-files", help="Tables of every op even above 200,000 ops.")] = False,
) -> None:
    """Simulate an experiment: what it takes, where the time goes, what each rank holds."""
    from ppsim import store
    from ppsim.display import result as display
    from ppsim.display.progress import progress

    with progress() as watch:
        result = _watched(config, set_, engine, watch)
        folder = out or Path("results") / result.experiment.name
        _ = result.summary
        watch.at("files")
        files = [] if no_files else store.write(result, folder, all_files)
    if json:
        typer.echo(store.summary_json(result))
    else:
        display.screen(result, display.console(), files, str(folder))


@app.command()
def check(config: Config, set_: Set = None) -> None:
    """Show the resolved experiment: every default, every derived number, both forms of each unit."""
    from ppsim import plan
    from ppsim.config.load import load
    from ppsim.config.notices import notices
    from ppsim.config.resolved import text

    experiment = load(config, set_ or ())
    problem, schedule = experiment.problem(), experiment.schedule
    if schedule.files():  # an order that was written by hand
        plan.check(schedule.orders(problem), problem, schedule.label, schedule.place)
    typer.echo(text(experiment), nl=False)
    found = [
        *schedule.notices(problem.ranks, experiment.pipeline.microbatches), *notices(experiment, problem, schedule),
    ]  # fmt: skip
    for notice in found:
        typer.echo(f"# warning: {notice.key}: {notice.message}")


class Listing(StrEnum):
    """What there is a list of."""

    schedules = "schedules"
    devices = "devices"
    links = "links"
    models = "models"
    metrics = "metrics"
    formats = "formats"


@app.command("list")
def list_(what: Listing) -> None:
    """List schedules, devices, links, models, metrics or file formats."""
    from ppsim.display import result as display
    from ppsim.display.listing import rows

    display.listing(rows(what.value), display.console())


class PlotKind(StrEnum):
    """Which picture: of a run the first two, of a sweep the others."""

    gantt = "gantt"
    memory = "memory"
    bubble = "bubble"
    heatmap = "heatmap"
    schedules = "schedules"
    pareto = "pareto"


@app.command()
def plot(
    config: Annotated[
        Path, typer.Argument(help="An experiment, or the results folder of a run or a sweep.", show_default=False)
    ],
    set_: Set = None,
    kind: Annotated[
        PlotKind | None,
        typer.Option(help="Which picture (default: gantt; of a sweep, all that suit it).", show_default=False),
    ] = None,
    x: cli_sweep.Axis = None,
    y: cli_sweep.Axis = None,
    hue: cli_sweep.Axis = None,
    facet: cli_sweep.Axis = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File (default: NAME-KIND.FORMAT).")] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="png, svg or pdf (default: what the file ends in, or png).", show_default=False),
    ] = None,
    size: Annotated[str, typer.Option(help="notebook, slide or paper.")] = "notebook",
    engine: EngineOption = EngineName.auto,
) -> None:
    """Draw a run's Gantt chart or the memory of every rank over time, or the pictures of a sweep."""
    from ppsim import plot as plots
    from ppsim.errors import ConfigError

    axes_of_sweep = {"x": x, "y": y, "hue": hue, "facet": facet}
    if cli_sweep.holds_sweep(config):
        cli_sweep.plot(config, kind and kind.value, axes_of_sweep, output, format_, size)
        return
    if given := [f"--{name}" for name, value in axes_of_sweep.items() if value is not None]:
        raise ConfigError(f"{', '.join(given)}: for the folder of a sweep; {config} is none")
    if kind not in (None, PlotKind.gantt, PlotKind.memory):
        raise ConfigError(f"--kind {kind}: a picture of a sweep; {config} is none; of a run: gantt, memory")
    kind = kind or PlotKind.gantt
    source = config / "config.yaml" if (config / "config.yaml").is_file() else config
    result = _simulated(source, set_, engine)
    axes = getattr(plots, kind.value)(result, size=size)
    path = output or Path(f"{result.experiment.name}-{kind.value}.{format_ or 'png'}")
    _written(path, lambda: plots.save(axes.figure, path, format_))
    typer.echo(str(path))


@app.command()
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
    result = _simulated(config, set_, engine)
    if output is None:
        formats[format_].run(result, sys.stdout)
        return

    def to_file() -> None:
        with output.open("w", encoding="utf-8", newline="\n") as stream:
            formats[format_].run(result, stream)

    _written(output, to_file)


@app.command()
def schema() -> None:
    """Print the JSON Schema of experiments, for an editor."""
    import json

    from ppsim.config.schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


def _memory() -> int | None:
    """Bytes of memory that this machine has, or None where it doesn't say."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _written(path: Path, write: Any) -> None:
    from ppsim.errors import PpsimError, printable

    try:
        write()
    except OSError as error:
        raise PpsimError(f"{printable(str(path))}: can't be written: {error.strerror or error}") from None


cli_compare.register(app)
cli_import.register(app)
cli_sweep.register(app)


def _interrupted(*_: object) -> None:
    typer.echo("interrupted; nothing is half-written", err=True)
    raise SystemExit(INTERRUPTED)


def main() -> None:
    """Entry point: a wrong input is one line per mistake and exit code 2, a deadlock 1, a bug says that it is one."""
    from ppsim.errors import DeadlockError, PpsimError

    signal.signal(signal.SIGINT, _interrupted)
    try:
        app()
    except DeadlockError as error:
        typer.echo(str(error), err=True)
        sys.exit(DEADLOCK)
    except PpsimError as error:
        typer.echo(str(error), err=True)
        sys.exit(WRONG_INPUT)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except MemoryError:
        typer.echo("not enough memory for so many ops; fewer ranks, microbatches or steps need less", err=True)
        sys.exit(WRONG_INPUT)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            typer.echo(f"the output can't be written: {error.strerror}", err=True)
            sys.exit(WRONG_INPUT)
        import traceback

        typer.echo(traceback.format_exc(), err=True)
        typer.echo("this is a bug in ppsim, not in your input: please report it with the lines above", err=True)
        sys.exit(BUG)

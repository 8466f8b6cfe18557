"""``ppsim run`` and ``ppsim check``: an experiment played through, or only read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppsim.cli.files import is_trace
from ppsim.cli.options import Config, EngineName, EngineOption, Set

if TYPE_CHECKING:
    from ppsim.analysis.measured.result import MeasuredResult
    from ppsim.analysis.result import Result
    from ppsim.engine.watch import Watch


ESTIMATE_ABOVE = 2_000_000


BYTES_PER_OP = 200
"""What a run with free links needs by the compiled engine; with others it takes half as much again."""


def run(
    config: Config,
    set_: Set = None,
    engine: EngineOption = EngineName.auto,
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: results/NAME).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only the summary, as JSON.")] = False,
    no_files: Annotated[bool, typer.Option("--no-files", help="Write nothing.")] = False,
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Write no pictures.")] = False,
    all_files: Annotated[bool, typer.Option("--all-files", help="Tables of every op even above 200,000 ops.")] = False,
) -> None:
    """Simulate an experiment, or show a measured run: what it takes, where the time goes, what each rank holds."""
    from ppsim import store

    if is_trace(config):
        _show_measured(config, out, json, no_files)
        return
    from ppsim.analysis.alternatives import with_alternative
    from ppsim.display.console import console
    from ppsim.display.progress import progress
    from ppsim.display.screen import screen

    with progress() as watch:
        result = with_alternative(watched(config, set_, engine, watch))
        folder = out or Path("results") / result.experiment.name
        _ = result.summary
        watch.at("files")
        files = [] if no_files else store.write(result, folder, all_files, pictures=not no_plots)
    if json:
        typer.echo(store.summary_json(result))
    else:
        screen(result, console(), files, str(folder))


def _show_measured(trace: Path, out: Path | None, json: bool, no_files: bool) -> None:
    """The same of a measured run."""
    from ppsim import store
    from ppsim.config.load import default_name
    from ppsim.display.console import console
    from ppsim.display.measured import measured as show

    result = measured(trace)
    folder = out or Path("results") / default_name(trace)
    files = [] if no_files else store.write_measured(result, folder)
    if json:
        typer.echo(store.summary_json(result))
    else:
        show(result, console(), files, str(folder))


def measured(trace: Path) -> MeasuredResult:
    """A trace as a result, its progress shown where it takes long."""
    from ppsim.analysis.measured.result import as_result
    from ppsim.display.progress import progress
    from ppsim.formats.traces import read_trace

    with progress() as watch:
        result = as_result(read_trace(trace, watch=watch))
        watch.at("metrics")
        _ = result.summary
    return result


def check(config: Config, set_: Set = None) -> None:
    """Show the resolved experiment: every default, every derived number, both forms of each unit; a model's terms."""
    from ppsim.config.load import load
    from ppsim.config.notices import notices, of_recomputation
    from ppsim.config.resolved import text
    from ppsim.display.terms import lines
    from ppsim.schedules.from_file import FromFile

    experiment = load(config, set_ or ())
    problem, schedule = experiment.problem(), experiment.schedule
    recomputed = False
    if isinstance(schedule, FromFile):  # an order that was written by hand
        from ppsim import plan
        from ppsim.ops import Kind

        orders = plan.check(schedule.orders(problem), problem, schedule.label, schedule.place)
        recomputed = orders.table.index.has(Kind.R)
    typer.echo(text(experiment), nl=False)
    if (name := experiment.runtime.transport) != "none":
        from ppsim.network import transport

        for rule, reason in transport(name).reasons.items():
            typer.echo(f"# {name}: {rule}: {reason}")
    for line in lines(experiment):
        typer.echo(f"# {line}".rstrip())
    if experiment.split() is not None:
        from ppsim.analysis.partition import report

        for line in report(experiment):
            typer.echo(f"# partition: {line}")
    found = [*notices(experiment, problem), *of_recomputation(experiment, recomputed)]
    if schedule.alternative(problem.ranks, experiment.pipeline.microbatches) is not None:
        from ppsim.analysis.alternatives import alternative

        found += filter(None, [alternative(experiment)])
    for notice in found:
        typer.echo(f"# warning: {notice.key}: {notice.message}")


def simulated(config: Path, settings: list[str] | None, engine: EngineName) -> Result:
    """The run of an experiment, its progress shown where it takes long."""
    from ppsim.display.progress import progress

    with progress() as watch:
        return watched(config, settings, engine, watch)


def watched(config: Path, settings: list[str] | None, engine: EngineName, watch: Watch) -> Result:
    """The same, told to a watch; what is too much for this machine is said before it begins."""
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


def _memory() -> int | None:
    """Bytes of memory that this machine has, or None where it doesn't say."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

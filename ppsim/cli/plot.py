"""``ppsim plot``: pictures of a run, or of a sweep."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ppsim.cli.files import holds_sweep, is_trace, written
from ppsim.cli.options import EngineName, EngineOption, Set
from ppsim.cli.run import measured, simulated

if TYPE_CHECKING:
    from ppsim.analysis.measured.result import MeasuredResult
    from ppsim.analysis.result import Result


class PlotKind(StrEnum):
    """Which picture: of a run the first four, of a sweep the others."""

    gantt = "gantt"
    memory = "memory"
    peaks = "peaks"
    parts = "split"
    bubble = "bubble"
    heatmap = "heatmap"
    schedules = "schedules"
    pareto = "pareto"


OF_RUNS = (PlotKind.gantt, PlotKind.memory, PlotKind.peaks, PlotKind.parts)


class Picture(NamedTuple):
    """What is asked for of a picture."""

    kind: PlotKind | None
    output: Path | None
    format: str | None
    size: Any

    def path(self, name: str, which: str) -> Path:
        """Where it goes."""
        return self.output or Path(f"{name}-{which}.{self.format or 'png'}")


Axis = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Of a sweep: a parameter or figure.", show_default=False)
]


def plot(
    config: Annotated[
        Path, typer.Argument(help="An experiment, or the results folder of a run or a sweep.", show_default=False)
    ],
    set_: Set = None,
    kind: Annotated[
        PlotKind | None,
        typer.Option(help="Which picture (default: gantt; of a sweep, all that suit it).", show_default=False),
    ] = None,
    x: Axis = None,
    y: Axis = None,
    hue: Axis = None,
    facet: Axis = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File (default: NAME-KIND.FORMAT).")] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="png, svg or pdf (default: what the file ends in, or png).", show_default=False),
    ] = None,
    size: Annotated[str, typer.Option(help="notebook, slide or paper.")] = "notebook",
    window: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="START END", help="Of a run's time, as in --window '1 s' '1.2 s'.", show_default=False),
    ] = None,
    ranks: Annotated[
        str | None, typer.Option(metavar="0-3,7", help="Of a run, from the top.", show_default=False)
    ] = None,
    engine: EngineOption = EngineName.auto,
) -> None:
    """Draw a run (Gantt chart, memory over time, peaks per rank, what its time is made of), or a sweep's pictures."""
    from ppsim.errors import ConfigError

    wanted = Picture(kind, output, format_, size)
    axes_of_sweep = {
        name: column for name, column in (("x", x), ("y", y), ("hue", hue), ("facet", facet)) if column is not None
    }
    part = _part(kind, window, ranks)
    if holds_sweep(config):
        if part:
            raise ConfigError(f"{', '.join(f'--{name}' for name in part)}: of a run; {config} holds a sweep")
        if kind in OF_RUNS:
            raise ConfigError(f"--kind {kind}: a picture of a run; {config} holds a sweep")
        _of_sweep(config, wanted, axes_of_sweep)
        return
    if axes_of_sweep:
        options = ", ".join(f"--{name}" for name in axes_of_sweep)
        raise ConfigError(f"{options}: for the folder of a sweep; {config} is none")
    if kind is not None and kind not in OF_RUNS:
        raise ConfigError(f"--kind {kind}: a picture of a sweep; {config} is none; of a run: {', '.join(OF_RUNS)}")
    source = config / "config.yaml" if (config / "config.yaml").is_file() else config
    if not is_trace(source):
        result = _long_enough(source, set_, engine)
        _of_run(result, result.experiment.name, wanted, part)
        return
    if kind in (PlotKind.memory, PlotKind.peaks, PlotKind.parts):
        why = "can't be run again with free links" if kind == PlotKind.parts else "its memory isn't known"
        raise ConfigError(f"--kind {kind}: {config} is a measured run; {why}")
    from ppsim.config.load import default_name

    _of_run(measured(source), default_name(source), wanted, part)


def _long_enough(source: Path, settings: list[str] | None, engine: EngineName) -> Result:
    """The run; of a stream whose steps nobody gave, as many as show its steady state."""
    from ppsim.metrics.throughput import steps_to_see

    result = simulated(source, settings, engine)
    given = "steps" in result.experiment.pipeline.model_fields_set
    if not result.plan.asynchronous or given or result.summary["period_s"] is not None:
        return result
    return simulated(source, [*(settings or []), f"pipeline.steps={steps_to_see(result.run)}"], engine)


def _of_run(result: Result | MeasuredResult, name: str, wanted: Picture, part: dict[str, Any]) -> None:
    """Draw a run: its Gantt chart, or what else is asked for."""
    from ppsim import plot as plots
    from ppsim.analysis.compare import compare

    which = (wanted.kind or PlotKind.gantt).value
    if which == PlotKind.parts:
        axes = plots.split(compare([result]), size=wanted.size)
    else:
        axes = getattr(plots, which)(result, size=wanted.size, **part)
    target = wanted.path(name, which)
    written(target, lambda path: plots.save(axes, path, wanted.format))
    typer.echo(str(target))


def _part(kind: PlotKind | None, window: tuple[str, str] | None, ranks: str | None) -> dict[str, Any]:
    """The part of a run to draw: ``window`` in seconds, ``ranks``. Raises ConfigError for what isn't one."""
    from ppsim.errors import ConfigError, printable
    from ppsim.units import parse

    found: dict[str, Any] = {}
    which = kind or PlotKind.gantt
    if window is not None:
        try:
            found["window"] = tuple(float(parse(moment, "time")) for moment in window)
        except ValueError as error:
            raise ConfigError(f"--window: {error}") from None
        if which != PlotKind.gantt:
            raise ConfigError(f"--window: of a Gantt chart; {which} has none")
    if ranks is not None:
        bounds = [part.strip().split("-") for part in ranks.split(",")]
        if not all(len(ends) in (1, 2) and all(end.isascii() and end.isdigit() for end in ends) for ends in bounds):
            raise ConfigError(f"--ranks: '{printable(ranks)}' are no ranks; give them as in 0-3,7")
        found["ranks"] = [rank for ends in bounds for rank in range(int(ends[0]), int(ends[-1]) + 1)]
        if which not in (PlotKind.gantt, PlotKind.memory):
            raise ConfigError(f"--ranks: of a Gantt chart or of memory; {which} shows all")
    return found


def _of_sweep(path: Path, wanted: Picture, axes: dict[str, str]) -> None:
    """Draw a sweep: the picture that is asked for, or all that suit what it varied."""
    from ppsim import plot as plots
    from ppsim.plot import sweep as pictures
    from ppsim.sweeps.export import read_sweep

    table = read_sweep(path)
    chosen = [wanted.kind.value] if wanted.kind else ["chart"] if axes else pictures.kinds(table)
    for which in chosen[:1] if wanted.output else chosen:
        figure = pictures.draw(table, which, wanted.size, **axes)
        target = wanted.path(table.attrs["name"], which)
        written(target, lambda path, drawn=figure: plots.save(drawn, path, wanted.format))  # type: ignore[misc]
        typer.echo(str(target))

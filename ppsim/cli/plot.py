"""``ppsim plot``: pictures of a run, or of a sweep."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from ppsim.cli.files import written
from ppsim.cli.options import EngineName, EngineOption, Set
from ppsim.cli.run import measured, simulated


class PlotKind(StrEnum):
    """Which picture: of a run the first two, of a sweep the others."""

    gantt = "gantt"
    memory = "memory"
    bubble = "bubble"
    heatmap = "heatmap"
    schedules = "schedules"
    pareto = "pareto"


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
    engine: EngineOption = EngineName.auto,
) -> None:
    """Draw a run's Gantt chart or the memory of every rank over time, or the pictures of a sweep."""
    from ppsim import plot as plots
    from ppsim.errors import ConfigError

    wanted = Picture(kind, output, format_, size)
    axes_of_sweep = {
        name: column for name, column in (("x", x), ("y", y), ("hue", hue), ("facet", facet)) if column is not None
    }
    if _holds_sweep(config):
        _of_sweep(config, wanted, axes_of_sweep)
        return
    if axes_of_sweep:
        options = ", ".join(f"--{name}" for name in axes_of_sweep)
        raise ConfigError(f"{options}: for the folder of a sweep; {config} is none")
    if kind not in (None, PlotKind.gantt, PlotKind.memory):
        raise ConfigError(f"--kind {kind}: a picture of a sweep; {config} is none; of a run: gantt, memory")
    which = (kind or PlotKind.gantt).value
    source = config / "config.yaml" if (config / "config.yaml").is_file() else config
    from ppsim.formats.traces import is_trace

    if is_trace(source):
        if kind == PlotKind.memory:
            raise ConfigError(f"--kind memory: {config} is a measured run; its memory over time isn't known")
        from ppsim.config.load import default_name

        result: Any = measured(source)
        name = default_name(source)
    else:
        result = simulated(source, set_, engine)
        name = result.experiment.name
    axes = getattr(plots, which)(result, size=size)
    target = wanted.path(name, which)
    written(target, lambda path: plots.save(axes.figure, path, format_))
    typer.echo(str(target))


def _holds_sweep(path: Path) -> bool:
    """Whether a path is the folder or the file of a sweep."""
    return path.suffix == ".sqlite" or (path.is_dir() and any(path.glob("sweep*.sqlite")))


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

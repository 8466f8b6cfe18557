"""``ppsim fit``: a trace of a real run into an experiment, and what would make the run faster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppsim.cli.files import written

if TYPE_CHECKING:
    from ppsim.analysis.measured.fit import Fit
    from ppsim.analysis.measured.settings import Known

MAX_BYTES = 1 << 20


def fit(
    trace: Annotated[
        Path,
        typer.Argument(help="A trace, or a folder with one per rank (see ppsim list formats).", show_default=False),
    ],
    megatron: Annotated[
        Path | None, typer.Option(metavar="ARGS", help="Megatron's launch script: sizes that a trace lacks.")
    ] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of the model.", show_default=False)] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Spans of a profiler's trace, by groups kind, stage, microbatch.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The calibrated experiment, and one per change beside it.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only the figures, as JSON.")] = False,
) -> None:
    """Fit a measured run: its times, how far they explain it, who slows it down, what would pay."""
    from ppsim.analysis.measured.fit import fit as fitted
    from ppsim.display.console import console
    from ppsim.display.measured import fitted as show
    from ppsim.display.progress import progress
    from ppsim.formats.traces import read_trace

    known = _known(megatron, layers)
    with progress() as watch:
        measured = read_trace(trace, name, watch)
        watch.at("fit")
        found = fitted(measured, known)
        found.summary()
        files = [] if output is None else _write(found, output)
    if json:
        import json as text

        typer.echo(text.dumps(found.summary(), indent=2))
    else:
        show(found, console(), files)


def _known(megatron: Path | None, layers: int | None) -> Known:
    """What is told beside the trace."""
    from ppsim import _textfile as textfile
    from ppsim.analysis.measured.settings import Known
    from ppsim.formats.traces.launch import known

    if megatron is None:
        return Known(layers=layers, source="--layers")
    found = known(textfile.read(megatron, "a launch script", MAX_BYTES), str(megatron))
    return found if layers is None else found._replace(layers=layers)


def _write(found: Fit, output: Path) -> list[str]:
    """The experiment, its order where no schedule has it, and an experiment per change."""
    from ppsim.analysis.measured.report import text
    from ppsim.errors import ConfigError, printable

    if output.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"-o {printable(str(output))}: the experiment is YAML; name it {printable(output.stem)}.yaml")
    files: dict[Path, str] = {}
    order: str | None = None
    if found.order.setting is None:
        from ppsim.ops import orderfile

        order = output.with_suffix(".csv").name
        files[output.with_name(order)] = orderfile.write(found.result.orders)
    files[output] = text(found, order)
    for change in found.changes:
        files[output.with_name(f"{output.stem}-{change.slug}{output.suffix}")] = text(found, order, change)
    for path, content in files.items():
        written(path, lambda to, what=content: to.write_text(what, encoding="utf-8", newline="\n"))  # type: ignore[misc]
    return [str(path) for path in files]

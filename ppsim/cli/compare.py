"""The command line of reading results: ``ppsim compare | explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ppsim.analysis.result import Result

NOT_COMPARED = {"file", "forward_only"}
"""What `--schedules all` leaves out: an order needs its file, and a stream of inference does other work."""

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of all. Repeatable."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(compare)
    app.command()(explain)


def compare(
    configs: Annotated[list[Path], typer.Argument(help="Experiments: YAML files.", show_default=False)],
    schedules: Annotated[
        str | None,
        typer.Option(metavar="all|NAME,…", help="Run the first config under these schedules.", show_default=False),
    ] = None,
    set_: Set = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Picture of the Gantt charts.")] = None,
    parts: Annotated[Path | None, typer.Option(help="Picture of what each step is made of.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Set experiments, or schedules of one experiment, side by side."""
    from ppsim.analysis.compare import compare as compared
    from ppsim.display import result as display

    results, left_out = _results(configs, schedules, set_)
    found = compared(results)
    if json:
        import json as text

        typer.echo(text.dumps(found.rows, indent=2))
    else:
        display.comparison(found, display.console(width=170))
    for name, reason in left_out:
        typer.echo(f"left out: {name}: {reason}", err=True)
    if output is not None or parts is not None:
        from ppsim import plot

        if output is not None:
            plot.save(plot.charts(found), output)
        if parts is not None:
            plot.save(plot.split(found), parts)


def _results(
    configs: list[Path], schedules: str | None, settings: list[str] | None
) -> tuple[list[Result], list[tuple[str, str]]]:
    from ppsim.analysis.simulate import simulate
    from ppsim.config.load import load
    from ppsim.errors import ConfigError, PpsimError, shown
    from ppsim.schedules import known
    from ppsim.schedules.registry import PYTORCH_NAMES, nearest

    if schedules is None:
        return [simulate(load(config, settings or ())) for config in configs], []
    if len(configs) > 1:
        raise ConfigError("--schedules: takes one config, whose schedule it varies")
    everything = schedules == "all"
    names = [name for name in sorted(known()) if name not in NOT_COMPARED] if everything else schedules.split(",")
    for name in names:
        if name not in known() and name not in PYTORCH_NAMES:
            hint = nearest(name) or ";"
            raise ConfigError(f"--schedules: unknown schedule {shown(name)}{hint} known: {', '.join(sorted(known()))}")
    results: list[Result] = []
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


def explain(
    config: Annotated[Path, typer.Argument(help="An experiment: a YAML file.", show_default=False)],
    op: Annotated[str | None, typer.Option(help="The op, as in 2B3.", show_default=False)] = None,
    rank: Annotated[int | None, typer.Option(help="The rank.", show_default=False)] = None,
    at: Annotated[str | None, typer.Option(help="An instant, as in 41ms.", show_default=False)] = None,
    set_: Set = None,
) -> None:
    """Say why an op started when it did: its blocking input, the chain behind it, the slack of each link."""
    from ppsim.analysis.explain import explain as chain_of
    from ppsim.analysis.explain import find
    from ppsim.analysis.simulate import simulate
    from ppsim.config.load import load
    from ppsim.display import result as display
    from ppsim.errors import ConfigError
    from ppsim.units import parse, to_ns

    result = simulate(load(config, set_ or ()))
    instant: Any = None
    if at is not None:
        try:
            instant = to_ns(parse(at, "time"))
        except ValueError as error:
            raise ConfigError(f"--at: {error}") from None
    row = find(result, rank, op, instant)
    display.chain(result, row, chain_of(result, row), display.console())

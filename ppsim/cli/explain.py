"""``ppsim explain``: why an op started when it did."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ppsim.cli.files import is_trace
from ppsim.cli.options import Config, Set


def explain(
    config: Config,
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
    from ppsim.display.console import console
    from ppsim.display.screen import chain
    from ppsim.errors import ConfigError, printable
    from ppsim.units import parse, to_ns

    if is_trace(config):
        raise ConfigError(
            f"{printable(str(config))}: a measured run, which tells when an op started, not what it waited for; make "
            "an experiment of it by ppsim fit TRACE -o exp.yaml, and explain that"
        )
    result = simulate(load(config, set_ or ()))
    instant: Any = None
    if at is not None:
        try:
            instant = to_ns(parse(at, "time"))
        except ValueError as error:
            raise ConfigError(f"--at: {error}") from None
    row = find(result, rank, op, instant)
    chain(result, row, chain_of(result, row), console())

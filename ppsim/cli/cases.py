"""The cases of a sweep, for the commands that go through them: listed, run by workers, interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ppsim.config.sweep import Sweep
    from ppsim.errors import PpsimError
    from ppsim.sweeps.cases import Base, Case
    from ppsim.sweeps.crew import Crew
    from ppsim.sweeps.folder import Shard


INTERRUPTED = 130


def base_of(config: Path, settings: list[str] | None) -> tuple[Base, Sweep, str]:
    """What a config's cases start from, what varies, and its name."""
    from ppsim.config.load import document_of, experiment_of
    from ppsim.errors import ConfigError
    from ppsim.sweeps.cases import Base

    document = document_of(config, settings or ())
    experiment = experiment_of(document, config)
    if experiment.sweep is None:
        raise ConfigError(
            f"{document.label}: no sweep: in it; write what varies, as in\n"
            "sweep:\n  grid: {pipeline.ranks: [2, 4, 8], pipeline.microbatches: [8, 16]}"
        )
    return Base.of(document, config), experiment.sweep, experiment.name


def listed(base: Base, varied: Sweep, part: Shard | None) -> Iterator[Case]:
    """The sweep's cases, or a shard's share of them, with a spinner."""
    from ppsim.display.sweep import spinner
    from ppsim.sweeps.cases import listing

    with spinner("listing the cases") as show:
        for count, case in enumerate(listing(base, varied, None if part is None else part.holds), start=1):
            if count % 100 == 0:
                show(f"{count:,}")
            yield case


def nothing(base: Base, skipped: bool) -> PpsimError:
    """The error for a sweep without a case."""
    from ppsim.errors import ConfigError, printable

    why = "no case is legal" if skipped else "where: leaves no case"
    return ConfigError(f"{printable(str(base.path))}: sweep: {why}")


def reasons(status: str, given: Sequence[tuple[str, str]]) -> None:
    """Say on stderr why cases were skipped or failed."""
    from ppsim.display import sweep as display

    for line in display.reasons(status, given):
        typer.echo(line, err=True)


def check_best(path: Path | None, row: int, why_not: str | None = None) -> None:
    """Raises ConfigError for a row that nothing writes, or a config that can't be written in this run."""
    from ppsim.errors import ConfigError

    if path is None and row != 1:
        raise ConfigError(f"--row: says which config --write-best writes; give --write-best FILE with row {row}")
    if path is not None and why_not is not None:
        raise ConfigError(f"--write-best: {why_not}")


def write_best(path: Path, base: Base, rows: list[dict[str, Any]], row: int) -> None:
    """Write the config of a row of the table of the best, counted from 1."""
    from ppsim.cli.files import text_written
    from ppsim.sweeps.chosen import case_config, nth

    why = f"row {row} of the best of {base.path.name}"
    text = case_config(base, nth(rows, row, "the table of the best")["changes"], path.parent, why)
    text_written(path, text, [base.path])
    typer.echo(f"{path}: row {row}", err=True)


@contextmanager
def crew(base: Base, jobs: int | None, cluster: str | None) -> Iterator[Callable[[int], Crew]]:
    """Workers for so many cases, of this machine or of a cluster, once they are asked for."""
    from ppsim.sweeps.crew import Crew
    from ppsim.sweeps.pool import ClusterPool, LocalPool

    made: list[Crew] = []

    def of(tasks: int) -> Crew:
        if not made:
            made.append(Crew(LocalPool(jobs, tasks) if cluster is None else ClusterPool(cluster), base))
        return made[0]

    try:
        yield of
    finally:
        for workers in made:
            workers.pool.close()


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks the sweep to stop after what is being written; a second one stops at once."""
    asked: list[int] = []

    def ask(number: int, _: Any) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise SystemExit(INTERRUPTED)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Sweeps and searches from Python: the same cases, workers and tables as on the command line."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppsim.config.experiment import Experiment
from ppsim.config.load import load
from ppsim.config.resolved import settings
from ppsim.config.sweep import Sweep
from ppsim.config.yamlfile import Document
from ppsim.errors import ConfigError, shown
from ppsim.schedules import known
from ppsim.sweeps import folder as folders
from ppsim.sweeps import search as searching
from ppsim.sweeps.cases import Base, listing
from ppsim.sweeps.chosen import case_config, case_experiment, nth
from ppsim.sweeps.columns import Column, parameters
from ppsim.sweeps.crew import Crew
from ppsim.sweeps.db import SweepFile
from ppsim.sweeps.export import frame, write_tables
from ppsim.sweeps.pool import LocalPool
from ppsim.sweeps.report import Ranking, ranking
from ppsim.sweeps.run import Progress, run
from ppsim.sweeps.space import at_most

if TYPE_CHECKING:
    import pandas as pd


class _Rows:
    """Best rows, first the best, each of which is an experiment."""

    base: Base
    best: list[dict[str, Any]]

    def experiment(self, row: int = 1) -> Experiment:
        """The experiment of a row of ``best``, counted from 1."""
        return case_experiment(self.base, nth(self.best, row, "best")["changes"])

    def write(self, path: str | Path, row: int = 1) -> Path:
        """Write the config of a row of ``best``, counted from 1; returns its path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        why = f"row {row} of the best of {self.base.path.stem}"
        text = case_config(self.base, nth(self.best, row, "best")["changes"], target.parent, why)
        target.write_text(text, encoding="utf-8", newline="\n")
        return target


@dataclass(frozen=True, eq=False)
class Swept(_Rows):
    """A finished sweep: ``table``, a row per case; ``ranking``, the best and the front; ``failed``, with reasons."""

    base: Base
    table: pd.DataFrame
    ranking: Ranking
    parameters: list[Column]
    failed: list[tuple[str, str]]
    skipped: list[tuple[str, str]]

    @property
    def best(self) -> list[dict[str, Any]]:  # type: ignore[override]  # made of the ranking
        """The best ten cases that fit into memory, best first, by ``ranking.figure``."""
        return self.ranking.best


@dataclass(frozen=True, eq=False)
class Searched(_Rows):
    """A finished search: ``best``, fastest first; how many of ``cases`` had to be ``simulated`` to be sure."""

    base: Base
    space: searching.Space
    found: searching.Found
    parameters: list[Column]

    @property
    def best(self) -> list[dict[str, Any]]:  # type: ignore[override]  # what was found
        """The fastest cases that fit into memory, fastest first: figures, parameters, ``id`` and ``changes``."""
        return self.found.best

    @property
    def cases(self) -> int:
        """How many legal cases there are."""
        return self.space.legal

    @property
    def simulated(self) -> int:
        """How many of them were simulated."""
        return self.found.simulated

    @cached_property
    def table(self) -> pd.DataFrame:
        """``best`` as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.best)


def base_of(experiment: Experiment | str | Path, varied: Mapping[str, Any] | None) -> tuple[Base, Sweep]:
    """What all cases start from, and what varies. Raises ConfigError."""
    if isinstance(experiment, str | Path):
        experiment = load(experiment)
    if not isinstance(experiment, Experiment):
        raise ConfigError(f"takes an Experiment or the path of a YAML file, not {shown(experiment)}")
    if known().get(experiment.schedule.name) is not type(experiment.schedule):
        raise ConfigError(
            f"schedule: {type(experiment.schedule).__name__} is not found by its name, as the workers would have to; "
            "give it an entry point in the group 'ppsim.schedules'"
        )
    plain = settings(experiment)
    if varied is not None:
        experiment = Experiment(**{**plain, "sweep": dict(varied)})
    if experiment.sweep is None:
        raise ConfigError("no sweep: say what varies, as in {'grid': {'pipeline.ranks': [2, 4, 8]}}")
    name = Path(f"{experiment.name}.yaml")
    return Base.of(Document.from_mapping(plain, str(name)), name), experiment.sweep


def run_sweep(
    experiment: Experiment | str | Path,
    varied: Mapping[str, Any] | None,
    out: Path | None,
    jobs: int | None,
    watch: Callable[[Progress], None],
) -> Swept:
    """Simulate every case; with ``out`` into that folder, where a second call goes on with what is left."""
    base, sweep = base_of(experiment, varied)
    columns = parameters(sweep)
    with nullcontext(str(out)) if out is not None else tempfile.TemporaryDirectory() as name:
        target = Path(name)
        folders.prepare(target)
        with (
            folders.locked(target, folders.FILE),
            SweepFile(target / folders.FILE, create=True) as file,
            closing(LocalPool(jobs, at_most(sweep))) as pool,
        ):
            about = {"name": base.path.stem, "base": base.text, "sweep": sweep.model_dump_json()}
            crew, cases = Crew(pool, base), listing(base, sweep)
            file.list_cases(about, columns, crew.ahead(cases) if file.is_new() else cases)
            if tasks := file.pending(None):
                run(file, crew, tasks, watch, lambda: False)
            if out is not None:
                write_tables(file, target)
            ranked = [column for column in file.columns() if column.role == "parameter"]
            failed, skipped = (list(file.reasons(status)) for status in ("failed", "skipped"))
            return Swept(base, frame(file), ranking(file), ranked, failed, skipped)


def run_search(
    experiment: Experiment | str | Path,
    varied: Mapping[str, Any] | None,
    top: int,
    jobs: int | None,
    watch: Callable[[searching.Found], None],
) -> Searched:
    """Find the fastest cases that fit, without simulating those that can't be among them."""
    if top < 1:
        raise ConfigError(f"top: {top} is too small; at least 1")
    base, sweep = base_of(experiment, varied)
    columns = parameters(sweep)
    space = searching.space(base, listing(base, sweep), columns)
    if not space.legal:
        raise ConfigError("sweep: no case is legal" + _first(space.skipped))
    found = searching.Found()
    if space.candidates:
        with closing(LocalPool(jobs, len(space.candidates))) as pool:
            found = searching.search(Crew(pool, base), space, top, watch)
    return Searched(base, space, found, columns)


def _first(reasons: Iterable[tuple[str, str]]) -> str:
    return next((f"; the first: {reason}" for reason, _ in reasons), "")

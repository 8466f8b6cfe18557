"""The command line of sweeps: ``ppsim sweep | collect | search``. Progress goes to stderr, tables to stdout."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ppsim.config.sweep import Sweep
    from ppsim.errors import PpsimError
    from ppsim.sweep.cases import Base, Case
    from ppsim.sweep.columns import Column
    from ppsim.sweep.db import SweepFile
    from ppsim.sweep.folder import Shard
    from ppsim.sweep.pool import Pool
    from ppsim.sweep.search import Found, Space

INTERRUPTED = 130
NOTHING_WORKED = 1
FIRST = 10

Config = Annotated[Path, typer.Argument(help="An experiment with a sweep: a YAML file.", show_default=False)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of all cases. Repeatable."),
]
Out = Annotated[Path | None, typer.Option(help="The sweep's folder (default: results/NAME).")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Worker processes (default: one per core).", show_default=False)]
Cluster = Annotated[
    str | None, typer.Option(metavar="tcp://…", help="Run on the workers of this Dask cluster.", show_default=False)
]
RankBy = Annotated[
    str | None, typer.Option(metavar="FIGURE", help="What the best ten are best by.", show_default=False)
]

Axis = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Of a sweep: a parameter or figure.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(sweep)
    app.command()(collect)
    app.command()(search)


def sweep(
    config: Config,
    set_: Set = None,
    out: Out = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Run the I-th of N parts (I from 1), for `ppsim collect`.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what earlier runs have finished.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed cases once more.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Run at most so many cases now.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would run; write nothing.")] = False,
    rank_by: RankBy = None,
) -> None:
    """Simulate every case of a sweep; a second start goes on where the first was stopped."""
    from ppsim.sweep import folder as folders
    from ppsim.sweep.columns import parameters
    from ppsim.sweep.db import SweepFile
    from ppsim.sweep.export import write_tables
    from ppsim.sweep.report import check_figure

    part = None if shard is None else folders.Shard.parse(shard)
    check_figure(rank_by)
    base, varied, name = _sweep(config, set_)
    columns = parameters(varied)
    if dry_run:
        _dry_run(_cases(base, varied, part), columns)
        return
    target = out or Path("results") / name
    folders.prepare(target)
    file_name = folders.FILE if part is None else part.file
    about = {"name": name, "base": base.text, "sweep": varied.model_dump_json()}
    with folders.locked(target, file_name):
        if fresh:
            folders.clear(target, file_name)
        with SweepFile(target / file_name, create=True) as file:
            counts = _list(file, about, columns, _cases(base, varied, part))
            if part is None and set(counts) <= {"skipped"}:
                folders.clear(target, file_name)
                raise _nothing(base, bool(counts))
            if retry_failed:
                file.retry_failed()
            _run(file, base, jobs, cluster, limit)
            counts = file.counts()
            if part is None:
                _tables(file, target, rank_by, write_tables)
            elif not counts.get("pending"):
                typer.echo(f"{target / file_name}: finished; when all {part.of} are: ppsim collect {target}", err=True)
            _exit(counts)


def collect(
    folder: Annotated[Path, typer.Argument(help="The folder that holds the shards.", show_default=False)],
    rank_by: RankBy = None,
) -> None:
    """Put the shards of a sweep together."""
    from ppsim.sweep import collect as collecting
    from ppsim.sweep import folder as folders
    from ppsim.sweep.export import write_tables

    files = collecting.parts(folder)
    folders.prepare(folder)
    with folders.locked(folder, folders.FILE), collecting.merged(folder, files) as file:
        _tables(file, folder, rank_by, write_tables)
        _exit(file.counts())


def search(
    config: Config,
    set_: Set = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, help="Only cases with ranks · data_parallel = GPUS.", show_default=False)
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many of the best to find.")] = 10,
    jobs: Jobs = None,
    cluster: Cluster = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Find the fastest cases of a sweep that fit into memory, without simulating those that can't be among them."""
    from ppsim.display import sweep as display_sweep
    from ppsim.sweep import search as searching
    from ppsim.sweep.columns import parameters

    base, varied, _ = _sweep(config, set_)
    if gpus is not None:
        own = [varied.where] if isinstance(varied.where, str) else varied.where
        varied = varied.model_copy(update={"where": [*own, f"gpus == {gpus}"]})
    columns = parameters(varied)
    space = searching.space(base, _cases(base, varied, None), columns)
    _reasons("skipped", space.skipped)
    if not space.legal:
        raise _nothing(base, bool(space.skipped))
    found = searching.Found()
    if space.candidates:
        with (
            _pool(jobs, cluster, len(space.candidates)) as pool,
            _interrupts() as stop,
            display_sweep.spinner(f"searching {space.legal:,} cases") as show,
        ):
            found = searching.search(base, space, pool, top, lambda so_far: show(display_sweep.sought(so_far)), stop)
    _reasons("failed", found.failed)
    if found.stopped:
        typer.echo(f"interrupted after {found.simulated:,} of {space.legal:,} cases; nothing is kept", err=True)
        raise SystemExit(INTERRUPTED)
    limits = [_limit(base, case["changes"]) for case in found.best]
    if json_:
        typer.echo(json.dumps(_search_json(space, found, limits), indent=2))
    else:
        display_sweep.search(space, found, limits, columns)


def holds_sweep(path: Path) -> bool:
    """Whether a path is the folder or the file of a sweep."""
    return path.suffix == ".sqlite" or (path.is_dir() and any(path.glob("sweep*.sqlite")))


def plot(
    path: Path, kind: str | None, axes: dict[str, str | None], output: Path | None, format_: str | None, size: Any
) -> None:
    """Draw a sweep: the picture that is asked for, or all that suit what it varied."""
    from ppsim import plot as plots
    from ppsim.plot import sweep as pictures
    from ppsim.sweep.export import read_sweep

    table = read_sweep(path)
    chosen = [kind] if kind else ["chart"] if any(axes.values()) else pictures.kinds(table)
    for which in chosen[:1] if output else chosen:
        figure = pictures.draw(table, which, size, **{name: value for name, value in axes.items() if value})
        target = output or Path(f"{table.attrs['name']}-{which}.{format_ or 'png'}")
        plots.save(figure, target, format_)
        typer.echo(str(target))


def _limit(base: Base, changes: str) -> str:
    """What limits a case's step."""
    from ppsim.analysis.explain import limits
    from ppsim.analysis.simulate import simulate
    from ppsim.sweep.cases import Resolver

    resolver = Resolver(base)
    return limits(simulate(resolver.experiment(resolver.settings(json.loads(changes))), engine="auto"))


def _search_json(space: Space, found: Found, limits: list[str]) -> dict[str, Any]:
    return {
        "cases": space.legal,
        "simulated": found.simulated,
        "simulated_share": found.simulated / space.legal,
        "cut_by_bound": len(space.candidates) - found.simulated,
        "cut_by_memory": space.too_large,
        "best": [
            {**case, "changes": json.loads(case["changes"]), "limit": limit}
            for case, limit in zip(found.best, limits, strict=True)
        ],
    }


def _sweep(config: Path, settings: list[str] | None) -> tuple[Base, Sweep, str]:
    """What a config's cases start from, what varies, and its name."""
    from ppsim.config import yamlfile
    from ppsim.config.load import load
    from ppsim.errors import ConfigError
    from ppsim.sweep.cases import Base

    experiment = load(config, settings or ())
    document = yamlfile.read(config)
    if settings:
        document = yamlfile.override(document, settings)
    if experiment.sweep is None:
        raise ConfigError(
            f"{document.label}: no sweep: in it; write what varies, as in\n"
            "sweep:\n  grid: {pipeline.ranks: [2, 4, 8], pipeline.microbatches: [8, 16]}"
        )
    return Base.of(document, config), experiment.sweep, experiment.name


def _dry_run(cases: Iterator[Case], columns: list[Column]) -> None:
    from ppsim.display.result import console, table_of
    from ppsim.display.sweep import cell
    from ppsim.sweep.columns import cells
    from ppsim.sweep.report import short_names

    first: list[dict[str, Any]] = []
    skipped: list[tuple[str, str]] = []
    seen: set[str] = set()
    total = 0
    names = short_names([column.name for column in columns])
    units = {column.name: column.unit for column in columns}
    for case in cases:
        total += 1
        if case.reason is not None:
            skipped.append((case.reason, json.dumps(case.changes, default=str)))
        elif case.id not in seen:
            seen.add(case.id)
            if len(first) < FIRST:
                row = cells(case.settings, columns).items()
                first.append({"case": case.id[:10], **{names[key]: cell(value, units[key]) for key, value in row}})
    equal = total - len(seen) - len(skipped)
    typer.echo(f"{len(seen):,} cases would run" + (f"; {equal:,} more equal one of them" if equal else ""))
    table_of(first, console(), f"the first {len(first)}" if len(first) < len(seen) else "")
    _reasons("skipped", skipped)


def _cases(base: Base, varied: Sweep, part: Shard | None) -> Iterator[Case]:
    """The sweep's cases, or a shard's share of them, with a spinner."""
    from ppsim.display.sweep import spinner
    from ppsim.sweep.cases import listing

    with spinner("listing the cases") as show:
        for count, case in enumerate(listing(base, varied, None if part is None else part.holds), start=1):
            if count % 100 == 0:
                show(f"{count:,}")
            yield case


def _list(file: SweepFile, about: dict[str, str], columns: list[Column], cases: Iterator[Case]) -> dict[str, int]:
    """Write the cases into the sweep's file and say how many there are of each status."""
    listed = file.list_cases(about, columns, cases)
    counts = file.counts()
    parts = [f"{listed.cases:,} cases", *(f"{count:,} {status}" for status, count in counts.items())]
    if listed.equal:
        parts.append(f"{listed.equal:,} equal to others")
    typer.echo(", ".join(parts), err=True)
    _reasons("skipped", file.reasons("skipped"))
    return counts


def _nothing(base: Base, skipped: bool) -> PpsimError:
    from ppsim.errors import ConfigError, printable

    why = "no case is legal" if skipped else "where: leaves no case"
    return ConfigError(f"{printable(str(base.path))}: sweep: {why}")


def _reasons(status: str, given: Sequence[tuple[str, str]]) -> None:
    """Say on stderr why cases were skipped or failed."""
    from ppsim.display.sweep import reasons

    for line in reasons(status, given):
        typer.echo(line, err=True)


def _run(file: SweepFile, base: Base, jobs: int | None, cluster: str | None, limit: int | None) -> None:
    from ppsim.display import sweep as display_sweep
    from ppsim.sweep.run import run

    tasks = file.pending(limit)
    if not tasks:
        return
    with _pool(jobs, cluster, len(tasks)) as pool, _interrupts() as stop, display_sweep.bar(len(tasks)) as watch:
        progress = run(file, base, pool, tasks, watch, stop)
    typer.echo(display_sweep.told(progress), err=True)
    if progress.stopped:
        typer.echo(f"interrupted: {progress.done:,} of {progress.total:,} are kept; the same command goes on", err=True)
        raise SystemExit(INTERRUPTED)


@contextmanager
def _pool(jobs: int | None, cluster: str | None, tasks: int) -> Iterator[Pool]:
    from ppsim.sweep.pool import ClusterPool, LocalPool

    pool: Pool = LocalPool(jobs, tasks) if cluster is None else ClusterPool(cluster)
    try:
        yield pool
    finally:
        pool.close()


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
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


def _tables(file: SweepFile, folder: Path, rank_by: str | None, write: Callable[[SweepFile, Path], list[str]]) -> None:
    """Write the tables, then show failures, the best ten and the front."""
    from ppsim.display import sweep as display_sweep
    from ppsim.store import cannot
    from ppsim.sweep.report import ranking

    try:
        names = write(file, folder)
    except OSError as error:
        raise cannot(folder, error) from None
    _reasons("failed", file.reasons("failed"))
    display_sweep.ranking(ranking(file, rank_by), [column for column in file.columns() if column.role == "parameter"])
    typer.echo(f"files: {folder}/{{{', '.join([file.path.name, *names])}}}")


def _exit(counts: dict[str, int]) -> None:
    """Exit code 1 where every case failed."""
    if counts.get("failed") and not counts.get("ok") and not counts.get("pending"):
        raise SystemExit(NOTHING_WORKED)

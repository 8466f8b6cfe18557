"""The command line of sweeps: ``ppsim sweep | collect | search``. Progress goes to stderr, tables to stdout."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ppsim.config.sweep import Sweep
    from ppsim.sweep.cases import Base, Case
    from ppsim.sweep.columns import Column
    from ppsim.sweep.db import SweepFile
    from ppsim.sweep.folder import Shard
    from ppsim.sweep.pool import Pool
    from ppsim.sweep.report import Ranking
    from ppsim.sweep.run import Progress
    from ppsim.sweep.search import Found, Space

INTERRUPTED = 130
NOTHING_WORKED = 1
SHOWN_REASONS = 5
FIRST = 10
HEADS = {
    "ranks": "p", "microbatches": "m", "virtual_stages": "v", "step_time_s": "step time", "bubble_ratio": "bubble",
    "peak_memory_bytes": "peak memory",
}  # fmt: skip

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
RankBy = Annotated[str | None, typer.Option(metavar="FIGURE", help="What the best ten are best by.", show_default=False)]


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

    part = None if shard is None else folders.Shard.parse(shard)
    base, varied, name = _sweep(config, set_)
    columns = parameters(varied)
    if dry_run:
        _dry_run(_cases(base, varied, part), columns)
        return
    target = out or Path("results") / name
    folders.prepare(target)
    file_name = folders.FILE if part is None else part.file
    with folders.locked(target, file_name):
        if fresh:
            folders.clear(target, file_name)
        with SweepFile(target / file_name, create=True) as file:
            _list(file, base, columns, _cases(base, varied, part))
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
    from ppsim.errors import PpsimError, printable
    from ppsim.sweep import folder as folders
    from ppsim.sweep.db import SweepFile
    from ppsim.sweep.export import write_tables

    found = folders.shards(folder)
    if not found:
        raise PpsimError(f"{printable(str(folder))}: no shards in it, such as sweep-1-of-4.sqlite")
    if len(counts_of := {part.of for part in found}) > 1:
        raise PpsimError(f"{printable(str(folder))}: shards of different sweeps: of {' and of '.join(map(str, sorted(counts_of)))}")
    of = counts_of.pop()
    missing = sorted(set(range(1, of + 1)) - {part.index for part in found})
    if missing:
        raise PpsimError(f"{printable(str(folder))}: of {of} shards, missing: {', '.join(map(str, missing))}")
    folders.prepare(folder)
    with folders.locked(folder, folders.FILE):
        folders.clear(folder, folders.FILE)
        with SweepFile(folder / folders.FILE, create=True) as file:
            for path in found.values():
                with SweepFile(path) as other:
                    file.merge(other)
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
    from ppsim.errors import ConfigError
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
        raise ConfigError(f"{base.path}: sweep: no case is legal" if space.skipped else f"{base.path}: sweep: no case is left")
    found = searching.Found()
    if space.candidates:
        with _pool(jobs, cluster, len(space.candidates)) as pool, _interrupts() as stop, _spinner() as watch:
            found = searching.search(base, space, pool, top, watch, stop)
    _reasons("failed", found.failed)
    if found.stopped:
        typer.echo(f"interrupted after {found.simulated:,} of {space.legal:,} cases; nothing is kept", err=True)
        raise SystemExit(INTERRUPTED)
    limits = {case["id"]: _limit(base, case["changes"]) for case in found.best}
    if json_:
        typer.echo(json.dumps(_search_json(space, found, limits), indent=2))
    else:
        _search_screen(space, found, limits, columns)


def _limit(base: Base, changes: str) -> str:
    """What limits a case's step."""
    from ppsim.display import limits
    from ppsim.simulation import simulate
    from ppsim.sweep.cases import Resolver

    resolver = Resolver(base)
    return limits(simulate(resolver.experiment(resolver.settings(json.loads(changes))), engine="auto"))


def _search_json(space: Space, found: Found, limits: dict[str, str]) -> dict[str, Any]:
    return {
        "cases": space.legal,
        "simulated": found.simulated,
        "simulated_share": found.simulated / space.legal,
        "cut_by_bound": len(space.candidates) - found.simulated,
        "cut_by_memory": space.too_large,
        "best": [
            {"settings": json.loads(case["changes"]), "limit": limits[case["id"]], **_without(case, "changes")}
            for case in found.best
        ],
    }


def _without(case: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in case.items() if name != key}


def _search_screen(space: Space, found: Found, limits: dict[str, str], columns: list[Column]) -> None:
    from ppsim.display import table_of
    from ppsim.sweep.report import MEMORY

    share = 100 * found.simulated / space.legal
    typer.echo(
        f"{space.legal:,} cases: {found.simulated:,} simulated ({share:.1f} %), "
        f"{len(space.candidates) - found.simulated:,} cut by their bound, {space.too_large:,} by their weights alone; "
        f"{found.unfit:,} of the simulated don't fit into memory"
    )
    if not found.best:
        typer.echo("no case fits into memory")
        return
    rows = _shown(found.best, columns, ["step_time_s", "bubble_ratio", MEMORY])
    table_of(
        [{**row, "limit": limits[case["id"]]} for row, case in zip(rows, found.best, strict=True)],
        _console(),
        f"the best {len(found.best)}, as certain as if all had been simulated",
    )


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
    from ppsim.display import table_of
    from ppsim.sweep.columns import cells
    from ppsim.sweep.report import short_names

    first: list[dict[str, Any]] = []
    skipped: list[tuple[str, str]] = []
    seen: set[str] = set()
    total = 0
    names = short_names([column.name for column in columns])
    for case in cases:
        total += 1
        if case.reason is not None:
            skipped.append((case.reason, json.dumps(case.changes, default=str)))
        elif case.id not in seen:
            seen.add(case.id)
            if len(first) < FIRST:
                row = cells(case.settings, columns)
                first.append({"case": case.id[:12], **{names[key]: _blank(value) for key, value in row.items()}})
    equal = total - len(seen) - len(skipped)
    typer.echo(f"{len(seen):,} cases would run" + (f"; {equal:,} more equal one of them" if equal else ""))
    table_of(first, _console(), f"the first {len(first)}" if len(first) < len(seen) else "")
    _reasons("skipped", skipped)


def _cases(base: Base, varied: Sweep, part: Shard | None) -> Iterator[Case]:
    """The sweep's cases, or a shard's share of them, with a spinner."""
    from rich.progress import Progress, TextColumn

    from ppsim.sweep.cases import listing

    console = _console(True)
    words = TextColumn("listing the cases: {task.completed:,.0f}")
    with Progress(words, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("")
        for case in listing(base, varied, None if part is None else part.holds):
            bar.advance(task)
            yield case


def _list(file: SweepFile, base: Base, columns: list[Column], cases: Iterator[Case]) -> None:
    from ppsim.errors import ConfigError

    listed = file.list_cases(base.text, columns, cases)
    counts = file.counts()
    parts = [f"{listed.cases:,} cases", *(f"{count:,} {status}" for status, count in counts.items())]
    if listed.equal:
        parts.append(f"{listed.equal:,} equal to others")
    typer.echo(", ".join(parts), err=True)
    _reasons("skipped", file.reasons("skipped"))
    if not counts or set(counts) == {"skipped"}:
        raise ConfigError(f"{base.path}: sweep: no case is legal" if counts else f"{base.path}: sweep: no case is left")


def _reasons(status: str, reasons: Sequence[tuple[str, str]]) -> None:
    """Say on stderr why cases were skipped or failed."""
    from ppsim.errors import printable
    from ppsim.sweep.report import grouped

    groups = grouped(reasons)
    for count, reason, changes in groups[:SHOWN_REASONS]:
        typer.echo(f"{status}, {count:,}: {printable(reason)} (the first: {printable(changes)})", err=True)
    if rest := sum(count for count, _, _ in groups[SHOWN_REASONS:]):
        typer.echo(f"{status}, {rest:,}: for other reasons; see the column 'error'", err=True)


def _blank(value: Any) -> Any:
    return "–" if value is None else value


def _run(file: SweepFile, base: Base, jobs: int | None, cluster: str | None, limit: int | None) -> None:
    from ppsim.sweep.run import run

    tasks = file.pending(limit)
    if not tasks:
        return
    with _pool(jobs, cluster, len(tasks)) as pool, _interrupts() as stop, _bar(len(tasks)) as watch:
        progress = run(file, base, pool, tasks, watch, stop)
    typer.echo(_told(progress), err=True)
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

    def ask(number: int, frame: Any) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise SystemExit(INTERRUPTED)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[Progress], None]]:
    """A progress bar on stderr; nothing where that isn't a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    console = _console(True)
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("", total=total)
        yield lambda progress: bars.update(task, completed=progress.done, description=_told(progress, short=True))


@contextmanager
def _spinner() -> Iterator[Callable[[Found], None]]:
    """How many cases a search has simulated, and the best so far; on a terminal only."""
    from rich.progress import Progress, TextColumn

    console = _console(True)
    words = TextColumn("{task.description}", markup=False)
    with Progress(words, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("")

        def show(found: Found) -> None:
            best = f", best {_figure('step_time_s', found.best[0]['step_time_s'])}: {_label(found.best[0])}" if found.best else ""
            bar.update(task, description=f"simulated {found.simulated:,}{best}")

        yield show


def _told(progress: Progress, short: bool = False) -> str:
    """'1,234 cases, 160 cases/s, 2 failed, best step 41.3 ms: 1f1b, p = 4, m = 8'."""
    parts = [] if short else [f"{progress.done:,} cases"]
    parts.append(f"{progress.rate:.3g} cases/s")
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.deaths:
        parts.append(f"a worker died {progress.deaths} times, its cases were redone")
    if best := progress.best.figures:
        parts.append(f"best {_figure(progress.best.figure, best[progress.best.figure])}: {_label(best)}")
    return ", ".join(parts)


def _label(figures: dict[str, Any]) -> str:
    stages = f", v = {figures['virtual_stages']}" if figures["virtual_stages"] > 1 else ""
    return f"{figures['schedule']}, p = {figures['ranks']}, m = {figures['microbatches']}{stages}"


def _figure(name: str, value: Any) -> str:
    """A figure with its unit, as its name ends."""
    from ppsim import display

    base = name.split(".")[0]
    if value is None:
        return "–"
    if base.endswith("_bytes"):
        return display.size(value)
    if base.endswith("_per_s"):
        return f"{value:.4g}/s"
    if base.endswith("_s"):
        return display.seconds(value)
    return display.percent(value) if base in ("bubble_ratio", "bubble_overhead", "mfu") else str(value)


def _tables(file: SweepFile, folder: Path, rank_by: str | None, write: Callable[[SweepFile, Path], list[str]]) -> None:
    """Write the tables, then show failures, the best ten and the front."""
    from ppsim.store import cannot
    from ppsim.sweep.report import ranking

    try:
        names = write(file, folder)
    except OSError as error:
        raise cannot(folder, error) from None
    _reasons("failed", file.reasons("failed"))
    _ranking(ranking(file, rank_by), [column for column in file.columns() if column.role == "parameter"])
    typer.echo(f"files: {folder}/{{{', '.join([file.path.name, *names])}}}")


def _ranking(found: Ranking, columns: list[Column]) -> None:
    from ppsim.display import table_of
    from ppsim.sweep.report import MEMORY, thinned

    if not found.finished:
        return
    console = _console()
    typer.echo(f"ranked by {found.figure}: {found.why}")
    if not found.fitting:
        typer.echo(f"none of the {found.finished:,} cases fits into memory")
        return
    if found.fitting < found.finished:
        typer.echo(f"{found.finished - found.fitting:,} of {found.finished:,} cases don't fit into memory and are left out")

    figures = list(dict.fromkeys((found.figure, "step_time_s", "bubble_ratio", MEMORY)))
    table_of(_shown(found.best, columns, figures), console, f"best {len(found.best)} of {found.fitting:,}")
    if len(found.front) > 1:
        front = thinned(found.front, FIRST)
        some = f"{len(front)} of the {len(found.front)} cases" if len(front) < len(found.front) else "cases"
        table_of(_shown(front, columns, figures), console, f"{some} that none beats in both {found.figure} and peak memory")


def _shown(rows: list[dict[str, Any]], columns: list[Column], figures: list[str]) -> list[dict[str, Any]]:
    """Rows as people read them: the parameters in which they differ, then figures with their units."""
    from ppsim.sweep.report import short_names, varying

    names = short_names(varying(columns, rows))
    return [
        {
            **{HEADS.get(name, name): _blank(row[key]) for key, name in names.items()},
            **{HEADS.get(figure, figure): _figure(figure, row[figure]) for figure in figures},
        }
        for row in rows
    ]


def _exit(counts: dict[str, int]) -> None:
    """Exit code 1 where every case failed."""
    if counts.get("failed") and not counts.get("ok") and not counts.get("pending"):
        raise SystemExit(NOTHING_WORKED)


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(file=sys.stderr if stderr else sys.stdout, markup=False, highlight=False, emoji=False)

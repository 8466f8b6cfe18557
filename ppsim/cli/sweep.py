"""``ppsim sweep`` and ``ppsim collect``. Progress goes to stderr, tables to stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppsim.cli import cases
from ppsim.cli.options import Cluster, Config, Jobs, RankBy, Row, Set, WriteBest

if TYPE_CHECKING:
    from ppsim.sweeps.cases import Case
    from ppsim.sweeps.columns import Column
    from ppsim.sweeps.crew import Crew
    from ppsim.sweeps.db import SweepFile
    from ppsim.sweeps.report import Ranking


NOTHING_WORKED = 1


FIRST = 10


Out = Annotated[Path | None, typer.Option(help="The sweep's folder (default: results/NAME).")]


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
    best: WriteBest = None,
    row: Row = 1,
) -> None:
    """Simulate every case of a sweep; a second start goes on where the first was stopped."""
    from ppsim.sweeps import folder as folders
    from ppsim.sweeps.columns import parameters
    from ppsim.sweeps.db import SweepFile
    from ppsim.sweeps.report import check_figure
    from ppsim.sweeps.space import at_most

    part = None if shard is None else folders.Shard.parse(shard)
    check_figure(rank_by)
    cases.check_best(best, row, "--dry-run simulates nothing" if dry_run else None)
    if part is not None:
        cases.check_best(best, row, "a shard doesn't know the best of all; give it to a sweep without --shard")
    base, varied, name = cases.base_of(config, set_)
    columns = parameters(varied)
    if dry_run:
        _dry_run(cases.listed(base, varied, part), columns)
        return
    target = out or Path("results") / name
    folders.prepare(target)
    file_name = folders.FILE if part is None else part.file
    about = {"name": name, "base": base.text, "sweep": varied.model_dump_json()}
    with folders.locked(target, file_name):
        if fresh:
            folders.clear(target, file_name)
        with SweepFile(target / file_name, create=True) as file, cases.crew(base, jobs, cluster) as crew:
            listed = cases.listed(base, varied, part)
            if file.is_new() and cluster is None and limit is None:
                listed = crew(at_most(varied)).ahead(listed)
            counts = _list(file, about, columns, listed)
            if part is None and set(counts) <= {"skipped"}:
                folders.clear(target, file_name)
                raise cases.nothing(base, bool(counts))
            if retry_failed:
                file.retry_failed()
            _run(file, crew, limit)
            counts = file.counts()
            if part is None:
                ranked = _tables(file, target, rank_by)
                if best is not None:
                    cases.write_best(best, base, ranked.best, row)
            elif not counts.get("pending"):
                typer.echo(f"{target / file_name}: finished; when all {part.of} are: ppsim collect {target}", err=True)
            _exit(counts)


def collect(
    folder: Annotated[Path, typer.Argument(help="The folder that holds the shards.", show_default=False)],
    rank_by: RankBy = None,
) -> None:
    """Put the shards of a sweep together."""
    from ppsim.sweeps import collect as collecting
    from ppsim.sweeps import folder as folders

    files = collecting.parts(folder)
    folders.prepare(folder)
    with folders.locked(folder, folders.FILE), collecting.merged(folder, files) as file:
        _tables(file, folder, rank_by)
        _exit(file.counts())


def _dry_run(listed: Iterator[Case], columns: list[Column]) -> None:
    from ppsim.display.console import console, table_of
    from ppsim.display.sweep import cell
    from ppsim.sweeps.columns import Cells
    from ppsim.sweeps.report import short_names

    first: list[dict[str, Any]] = []
    skipped: list[tuple[str, str]] = []
    seen: set[str] = set()
    total = 0
    names = short_names([column.name for column in columns])
    units, cells = {column.name: column.unit for column in columns}, Cells(columns)
    for case in listed:
        total += 1
        if case.reason is not None:
            skipped.append((case.reason, case.text))
        elif case.id not in seen:
            seen.add(case.id)
            if len(first) < FIRST:
                row = cells.of(case.settings).items()
                first.append({"case": case.id[:10], **{names[key]: cell(value, units[key]) for key, value in row}})
    equal = total - len(seen) - len(skipped)
    typer.echo(f"{len(seen):,} cases would run" + (f"; {equal:,} more equal one of them" if equal else ""))
    table_of(first, console(), f"the first {len(first)}" if len(first) < len(seen) else "")
    cases.reasons("skipped", skipped)


def _list(file: SweepFile, about: dict[str, str], columns: list[Column], listed: Iterator[Case]) -> dict[str, int]:
    """Write the cases into the sweep's file and say how many there are of each status."""
    found = file.list_cases(about, columns, listed)
    counts = file.counts()
    parts = [f"{found.cases:,} cases", *(f"{count:,} {status}" for status, count in counts.items())]
    if found.equal:
        parts.append(f"{found.equal:,} equal to others")
    typer.echo(", ".join(parts), err=True)
    cases.reasons("skipped", file.reasons("skipped"))
    return counts


def _run(file: SweepFile, crew: Callable[[int], Crew], limit: int | None) -> None:
    from ppsim.display import sweep as display
    from ppsim.sweeps.run import run

    tasks = file.pending(limit)
    if not tasks:
        return
    workers = crew(len(tasks))
    with cases.interrupts() as stop, display.bar(len(tasks)) as watch:
        progress = run(file, workers, tasks, watch, stop)
    typer.echo(display.told(progress), err=True)
    if progress.stopped:
        typer.echo(f"interrupted: {progress.done:,} of {progress.total:,} are kept; the same command goes on", err=True)
        raise SystemExit(cases.INTERRUPTED)


def _tables(file: SweepFile, folder: Path, rank_by: str | None) -> Ranking:
    """Write the tables, then show failures, the best ten and the front; returns these."""
    from ppsim.display import sweep as display_sweep
    from ppsim.store import cannot
    from ppsim.sweeps.export import write_tables
    from ppsim.sweeps.report import ranking

    try:
        names = write_tables(file, folder)
    except OSError as error:
        raise cannot(folder, error) from None
    cases.reasons("failed", file.reasons("failed"))
    ranked = ranking(file, rank_by)
    display_sweep.ranking(ranked, [column for column in file.columns() if column.role == "parameter"])
    typer.echo(f"files: {folder}/{{{', '.join([file.path.name, *names])}}}")
    return ranked


def _exit(counts: dict[str, int]) -> None:
    """Exit code 1 where every case failed."""
    if counts.get("failed") and not counts.get("ok") and not counts.get("pending"):
        raise SystemExit(NOTHING_WORKED)

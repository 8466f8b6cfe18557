"""What people see of a sweep: why cases were left out, how far it is, the best of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ppsim._words import percent, seconds, size
from ppsim.display.console import console, stderr_console, table_of
from ppsim.display.progress import many, text_column
from ppsim.errors import printable
from ppsim.metrics import known
from ppsim.sweeps.columns import DIMENSIONS, Column
from ppsim.sweeps.report import MEMORY, TOP, Ranking, grouped, shared, short_names, thinned, varying
from ppsim.sweeps.run import Progress
from ppsim.units import show

if TYPE_CHECKING:
    from rich.console import Console

    from ppsim.sweeps.search import Found, Space

REASONS = 5
"""How many different reasons are shown."""
HEADS = {
    "ranks": "p", "microbatches": "m", "virtual_stages": "v", "step_time_s": "step time", "bubble_ratio": "bubble",
    "peak_memory_bytes": "peak memory",
}  # fmt: skip


def figure(name: str, value: Any) -> str:
    """A figure as people write it, with the unit that its name ends in."""
    base = name.split(".")[0]
    if value is None or (name == MEMORY and not value):  # nothing that takes memory was given
        return "–"
    if base.endswith("_bytes"):
        return size(value)
    if base.endswith("_per_s"):
        return f"{value:,.0f}/s" if value >= 10_000 else f"{value:.4g}/s"
    if base.endswith("_s"):
        return seconds(value)
    return percent(value) if base in ("bubble_ratio", "bubble_overhead", "mfu") else f"{value:.4g}"


def label(figures: dict[str, Any]) -> str:
    """A case in a few words: 'interleaved_1f1b, p = 4, m = 8, v = 2'."""
    stages = f", v = {figures['virtual_stages']}" if figures["virtual_stages"] > 1 else ""
    return f"{figures['schedule']}, p = {figures['ranks']}, m = {figures['microbatches']}{stages}"


def cell(value: Any, unit: str = "") -> Any:
    """A parameter as people write it, or a dash where it doesn't apply."""
    if value is None:
        return "–"
    return show(Fraction(str(value)), DIMENSIONS[unit]) if unit else value


def table(rows: Sequence[dict[str, Any]], columns: Sequence[Column], figures: Sequence[str]) -> list[dict[str, Any]]:
    """Numbered rows: the parameters in which they differ, then figures with their units."""
    names = short_names(varying(columns, rows))
    units = {column.name: column.unit for column in columns}
    return [
        {
            "": number,
            **{HEADS.get(name, name): cell(row[key], units[key]) for key, name in names.items()},
            **{HEADS.get(name, name): figure(name, row[name]) for name in figures},
        }
        for number, row in enumerate(rows, start=1)
    ]


def same(rows: Sequence[dict[str, Any]], columns: Sequence[Column]) -> str:
    """'same in all: p = 8, micro_batch_size = 2': what was varied and makes no column; '' where all of it does."""
    units = {column.name: column.unit for column in columns}
    names = short_names([column.name for column in columns])
    parts = [
        f"{HEADS.get(names[key], names[key])} = {cell(value, units[key])}"
        for key, value in shared(columns, rows).items()
    ]
    return f"same in all: {', '.join(parts)}" if parts else ""


def best_means(figure: str) -> str:
    """'step_time_s, less is better'."""
    metric = known("run").get(figure.split(".")[0])
    return f"{figure}, {'more' if metric is not None and metric.better == 'high' else 'less'} is better"


def _shown(rows: Sequence[dict[str, Any]], columns: Sequence[Column], figures: Sequence[str], out: Console) -> None:
    """A table of cases and, under it, what they share."""
    table_of(table(rows, columns, figures), out)
    if words := same(rows, columns):
        out.print(printable(words), soft_wrap=True, markup=False)


def _say_what_is_missing(missing: Sequence[str], out: Console) -> None:
    """Peaks are of what was given."""
    if missing:
        out.print(f"peak memory leaves out {' and '.join(missing)}: not given")


def reasons(status: str, given: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Lines that say why cases were skipped or failed: how many, why, and what the first of them sets."""
    groups = grouped(given)
    for count, reason, changes in groups[:REASONS]:
        yield f"{status}, {count:,}: {printable(reason)} (the first: {printable(changes)})"
    if rest := sum(count for count, _, _ in groups[REASONS:]):
        yield f"{status}, {rest:,}: for other reasons"


def ranking(found: Ranking, columns: Sequence[Column]) -> None:
    """Print the best ten, why they are ranked so, and the front against peak memory."""
    if not found.finished:
        return
    out = console()
    out.print(f"ranked by {best_means(found.figure)}: {found.why}", soft_wrap=True)
    if not found.fitting:
        out.print(f"none of the {found.finished:,} cases fits into memory")
        return
    if found.fitting < found.finished:
        out.print(f"{found.finished - found.fitting:,} of {found.finished:,} cases don't fit into memory: left out")
    figures = list(dict.fromkeys((found.figure, "step_time_s", "bubble_ratio", MEMORY)))
    _say_what_is_missing(found.missing, out)
    out.print(f"best {len(found.best)} of {found.fitting:,}:")
    _shown(found.best, columns, figures, out)
    if len(found.front) > 1:
        front = thinned(found.front, TOP)
        some = f"{len(front)} of the {len(found.front)} cases" if len(front) < len(found.front) else "cases"
        out.print(f"{some} that none beats in both {found.figure} and peak memory:")
        _shown(front, columns, figures, out)


def search(
    space: Space, found: Found, limits: Sequence[str], columns: Sequence[Column], missing: Sequence[str]
) -> None:
    """Print how much was simulated, the best cases, and what limits each."""
    out = console()
    share = 100 * found.simulated / space.legal
    out.print(
        f"{space.legal:,} cases: {found.simulated:,} simulated ({share:.1f} %), "
        f"{len(space.candidates) - found.simulated:,} cut by their bound, {space.too_large:,} by their weights alone; "
        f"{found.unfit:,} of the simulated don't fit into memory",
        soft_wrap=True,
    )
    if not found.best:
        out.print("no case fits into memory")
        return
    _say_what_is_missing(missing, out)
    best = best_means("step_time_s")
    out.print(f"the best {len(found.best)} by {best}, as certain as if all had been simulated:", soft_wrap=True)
    tokens = ["tokens_per_s"] if found.best[0].get("tokens_per_s") is not None else []
    _shown(found.best, columns, ["step_time_s", *tokens, "bubble_ratio", MEMORY, "heaviest_rank"], out)
    for number, limit in enumerate(limits, start=1):
        out.print(f"{number}: {limit}", soft_wrap=True)


def runner_up(reason: str) -> None:
    """Print why the second best is slower than the best."""
    console().print(f"2 after 1: {reason}", soft_wrap=True)


def told(progress: Progress, short: bool = False) -> str:
    """'1,234 cases, 160 cases/s, 2 failed, best 41.3 ms: 1f1b, p = 4, m = 8'."""
    parts = [] if short else [f"{progress.done:,} cases"]
    parts.append(f"{progress.rate:.3g} cases/s")
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.deaths:
        times = "once" if progress.deaths == 1 else f"{progress.deaths} times"
        parts.append(f"a worker died {times}, its cases were redone")
    if best := progress.best.figures:
        parts.append(f"best {figure(progress.best.figure, best[progress.best.figure])}: {label(best)}")
    return ", ".join(parts)


@contextmanager
def bar(total: int) -> Iterator[Callable[[Progress], None]]:
    """A progress bar on stderr, where that is a terminal."""
    with many(stderr_console()) as bars:
        task = bars.add_task("", total=total)
        yield lambda progress: bars.update(task, completed=progress.done, description=told(progress, short=True))


@contextmanager
def spinner(words: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says how far something is, where that is a terminal."""
    from rich.progress import Progress as Bars

    out = stderr_console()
    with Bars(text_column(), console=out, transient=True, disable=not out.is_terminal) as bars:
        task = bars.add_task(words)
        yield lambda text: bars.update(task, description=f"{words}: {text}")


def sought(found: Found) -> str:
    """How far a search is: '72 simulated, best 16.9 s: zbv, p = 16, m = 128'."""
    best = found.best[0] if found.best else None
    told_best = f", best {figure('step_time_s', best['step_time_s'])}: {label(best)}" if best else ""
    return f"{found.simulated:,} simulated{told_best}"

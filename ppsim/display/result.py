"""What people see of a result: one screen of text, and what a notebook shows."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ppsim.analysis.explain import limits
from ppsim.errors import printable
from ppsim.schedules import theory

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ppsim.analysis.compare import Comparison
    from ppsim.analysis.explain import Link
    from ppsim.analysis.result import Result

RANKS_SHOWN = 16


def console(width: int = 120) -> Console:
    """A console that prints text as it is; where it isn't a terminal, so many columns wide."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else width)


def stderr_console() -> Console:
    """The same on standard error, as wide as that is."""
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def seconds(value: float | None) -> str:
    """A time in the unit that fits it, to four digits: '41.3 ms'."""
    if value is None:
        return "–"
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(value) * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e9:.4g} ns" if value else "0 s"


def size(value: float | None) -> str:
    """A size in the binary unit that fits it: '12.1 GiB'."""
    if value is None:
        return "–"
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.0f} B"


def percent(value: float | None) -> str:
    """A share: '27.3 %'."""
    return "–" if value is None else f"{100 * value:.1f} %"


def headline(result: Result) -> list[tuple[str, str]]:
    """The figures that everybody asks for, as (name, value)."""
    s, form = result.summary, result.theory
    rows = [("step time" if s["steps"] == 1 else f"{s['steps']} steps", seconds(s["makespan_s"]))]
    if result.plan.asynchronous:
        steady = f"{seconds(s['period_s'])} a minibatch, {percent(s['steady_bubble_ratio'])} idle"
        rows = [
            ("stream", f"{seconds(s['makespan_s'])} for {s['microbatches'] * s['steps']:,} minibatches"),
            ("steady state", steady if s["period_s"] is not None else "too short to see one"),
            ("versions", "of the weights: " + ", ".join(str(row["weight_versions"]) for row in s["per_rank"][:16])),
        ]
    elif s["steps"] > 1:
        rows.append(("per step", f"{seconds(s['step_time_s'])}, steady {seconds(s['period_s'])}"))
    by_theory = f" (closed form: {percent(form['bubble_ratio'])})" if form and s["steps"] == 1 else ""
    if s["uncertainty"] is not None:
        rows.append(("uncertain", _spread_line(s["uncertainty"])))
    rows.append(("bubble_ratio", f"{percent(s['bubble_ratio'])} of all device time is idle{by_theory}"))
    rows.append(("bubble_overhead", f"idle is {percent(s['bubble_overhead'])} of busy time"))
    if s["samples_per_s"] is not None:
        rows.append(("throughput", f"{s['samples_per_s']:.4g} samples/s"))
    if s["mfu"] is not None:
        rows.append(("mfu", percent(s["mfu"])))
    rows.append(("peak memory", _memory_line(result)))
    if s["max_speedup"] is not None:
        rows.append(
            (
                "could win",
                f"at most {s['max_speedup']:.3f}x in one step, "
                f"{s['max_speedup_stream']:.3f}x over many without barrier",
            )
        )
    return rows


def _spread_line(spread: dict[str, Any]) -> str:
    """How far the step time spreads over the repeats."""
    time = spread["figures"]["step_time_s"]
    low, high = time["ci95_low"], time["ci95_high"]
    sure = f" (95 % confidence: {seconds(low)} to {seconds(high)})" if low is not None else ""
    tail = ", ".join(f"{name} {seconds(time[name])}" for name in ("p50", "p95", "p99"))
    return f"step time over {spread['repeat']:,} repeats: mean {seconds(time['mean'])}{sure}, {tail}"


def _memory_line(result: Result) -> str:
    s = result.summary
    ranks = s["per_rank"]
    worst = max(ranks, key=lambda row: row["peak_memory_bytes"])
    text = f"{size(worst['peak_memory_bytes'])} on rank {worst['rank']}"
    capacity = result.plan.capacity
    if capacity is None:
        return text
    over = worst["peak_memory_bytes"] - capacity
    if over <= 0:
        return f"{text} of {size(capacity)}: fits"
    return f"{text} of {size(capacity)}: does NOT fit, {size(over)} too much at {seconds(worst['peak_memory_at_s'])}"


def what_if(result: Result) -> str | None:
    """What m doubled, v = 2 and p halved would give by the closed form, or None where there is none."""
    form = result.schedule.theory()
    sizes = replace(result.sizes(), latency=Fraction(0))
    if form is None or form.bubble_ratio(sizes) is None:
        return None
    more = theory.INTERLEAVED
    v = 2 * sizes.v
    cases = [
        (f"m = {2 * sizes.m}", form, replace(sizes, m=2 * sizes.m)),
        (f"v = {v}", more, _stages(sizes, v=v)),
    ]
    if sizes.p % 2 == 0:
        cases.append((f"p = {sizes.p // 2}", form, _stages(sizes, p=sizes.p // 2)))
    told = [
        f"{name}: {percent(float(ratio))}" for name, form_, s in cases if (ratio := form_.bubble_ratio(s)) is not None
    ]
    return "bubble_ratio by closed form with " + ", ".join(told)


def _stages(sizes: theory.Sizes, p: int | None = None, v: int | None = None) -> theory.Sizes:
    """The same model cut into other stages."""
    p, v = p or sizes.p, v or sizes.v
    share = Fraction(sizes.p * sizes.v, p * v)
    times = {k: getattr(sizes, k) * share for k in ("forward", "backward", "input_grad", "weight_grad")}
    return replace(sizes, p=p, v=v, **times)


def rank_rows(result: Result, causes: int = 2) -> Iterator[list[str]]:
    """The table per rank as text, its idle time by the largest ``causes``; of many ranks the first and last ones."""
    rows = result.summary["per_rank"]
    held = result.plan.placement.stages_of
    for row in rows:
        if len(rows) > RANKS_SHOWN and RANKS_SHOWN // 2 <= row["rank"] < len(rows) - RANKS_SHOWN // 2:
            if row["rank"] == RANKS_SHOWN // 2:
                yield ["…"] * 8
            continue
        idle = {cause: value for cause, value in (row["waits_s"] or {}).items() if value}
        longest = sorted(idle.items(), key=lambda item: -item[1])[:causes]
        stages = held[row["rank"]]
        yield [
            str(row["rank"]),
            ",".join(map(str, stages[:4])) + ("…" if len(stages) > 4 else ""),
            seconds(row["busy_s"]),
            seconds(row["idle_s"]),
            percent(row["bubble_ratio"]),
            ", ".join(f"{cause} {seconds(value)}" for cause, value in longest) or "–",
            size(row["peak_memory_bytes"]),
            str(row["peak_in_flight"]),
        ]


COLUMNS = ("rank", "stages", "busy", "idle", "bubble", "mostly", "peak memory", "in flight")


NARROWER: tuple[tuple[int, tuple[str, ...]], ...] = (
    (2, ()), (1, ()), (1, ("stages",)), (1, ("stages", "in flight")), (1, ("stages", "in flight", "busy", "idle")),
)  # fmt: skip
"""How the table per rank gets narrower: the causes that are told of the idle time, the columns that are left out."""


def _rank_table(result: Result, console: Console) -> Table:
    """The table per rank, as much of it as fits into a line of the console."""
    from rich.table import Table
    from rich.text import Text

    anything = console.options.update(width=1000)
    for causes, without in NARROWER:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan", pad_edge=console.width >= 100)
        kept = [place for place, column in enumerate(COLUMNS) if column not in without]
        for column in (COLUMNS[place] for place in kept):
            words = column in ("mostly", "stages")
            head = column if causes > 1 else column.replace(" ", "\n")
            table.add_column(head, justify="left" if words else "right", no_wrap=True)
        for row in rank_rows(result, causes):
            table.add_row(*(Text(row[place]) for place in kept))
        if console.measure(table, options=anything).maximum <= console.width:
            break
    return table


def screen(result: Result, console: Console, files: list[str] | None = None, folder: str = "") -> None:
    """Print one screen: what was simulated, the headline, the table per rank, what limits it, warnings, files."""
    from rich.table import Table
    from rich.text import Text

    s = result.summary
    stages = f", v = {s['virtual_stages']}" if s["virtual_stages"] > 1 else ""
    copies = result.experiment.pipeline.data_parallel
    stages += f", data_parallel = {copies}" if copies > 1 else ""
    console.print(
        Text(
            f"{printable(s['name'])}: {s['schedule']}, p = {s['ranks']}, m = {s['microbatches']}{stages}; "
            f"{len(result.plan.ops):,} ops, engine {s['engine']}",
            style="bold",
        )
    )
    figures = Table.grid(padding=(0, 2))
    for name, value in headline(result):
        figures.add_row(Text(name, style="cyan"), Text(value))
    console.print(figures)
    console.print(_rank_table(result, console))
    console.print(Text("limit: " + limits(result)))
    for warning in s["warnings"]:
        console.print(Text(f"warning: {printable(warning['key'])}: {printable(warning['message'])}", style="yellow"))
    if files:
        console.print(Text(f"files: {printable(folder)}/{{{', '.join(files)}}}"), soft_wrap=True)
    if line := what_if(result):
        console.print(Text(line))


def comparison(found: Comparison, console: Console) -> None:
    """Print results side by side: a row each, fastest first, the Pareto front of time and memory marked."""
    order = sorted(range(len(found.rows)), key=lambda i: found.rows[i]["makespan_s"])
    table_of([_compared(found.rows[i]) for i in order], console, tight=True)
    for i in order:
        row = found.rows[i]
        console.print(f"{row['schedule']}: {row['limit']}", soft_wrap=True)
    for note in COMPARISON_NOTES:
        console.print(note)


COMPARISON_NOTES = (
    "* on the Pareto front: nothing here is faster with no more memory",
    "time = work + bubble + imbalance + recomp. + comm.; removed from the right, in this order (it matters)",
)


def _compared(row: dict[str, Any]) -> dict[str, str]:
    return {
        "schedule": ("* " if row["pareto"] else "  ") + row["schedule"],
        "time": seconds(row["makespan_s"]),
        "ratio": percent(row["bubble_ratio"]),
        "overhead": percent(row["bubble_overhead"]),
        "span": seconds(row["max_span_s"]),
        "work": seconds(row["work_s"]),
        "bubble": seconds(row["ideal_bubble_s"]),
        "imbalance": seconds(row["imbalance_s"]),
        "recomp.": seconds(row["recomputation_s"]),
        "comm.": seconds(row["communication_s"]),
        "peak": size(row["peak_memory_bytes"]),
        "least": size(row["least_memory_bytes"]),
        "copies": f"{row['weight_copies']:g}",
        "messages": f"{row['messages']:,}",
    }


def chain(result: Result, row: int, links: Sequence[Link], console: Console) -> None:
    """Print why an op started when it did, latest first."""
    plan, timeline = result.plan, result.timeline
    console.print(f"{plan.ops[row]} on rank {plan.ops.rank[row]} started at {seconds(timeline.start[row] / 1e9)}")
    rows = [
        {
            "": "because of" if number == 0 else "after",
            "what": link.what,
            "from": seconds(link.start_s),
            "to": seconds(link.end_s),
            "slack": seconds(link.slack_s),
        }
        for number, link in enumerate(links)
    ]
    if rows:
        table_of(rows, console)
        console.print("slack: were this link's end earlier by that much, the op would start earlier by as much")
    else:
        console.print("nothing held it: it is the first op of its rank and has no input")


def page(result: Result) -> str:
    """A result as HTML for a notebook: headline, table per rank, what limits it, Gantt chart; all text escaped."""
    from ppsim import plot

    name = f"{printable(result.experiment.name)}: {result.schedule.label}"
    notes = [f"limit: {limits(result)}", *(f"warning: {n.key}: {n.message}" for n in result.notices)]
    return (
        f"<b>{html.escape(name)}</b>{_html_table(headline(result))}{_html_table(rank_rows(result), COLUMNS)}"
        f"{''.join(f'<p>{html.escape(printable(note))}</p>' for note in notes)}{_html_picture(plot.gantt(result))}"
    )


def comparison_page(found: Comparison) -> str:
    """Results side by side as HTML for a notebook: one table, Gantt charts under one time axis; all text escaped."""
    from ppsim import plot

    rows = [_compared(row) for row in found.rows]
    columns = [*rows[0], "limit"]
    cells = ([*row.values(), of["limit"]] for row, of in zip(rows, found.rows, strict=True))
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in COMPARISON_NOTES)
    return f"{_html_table(cells, columns)}{notes}{_html_picture(plot.charts(found))}"


def _html_table(rows: Iterable[Sequence[str]], columns: Sequence[str] = ()) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        inside = (f"<{tag} style='text-align:left'>{html.escape(printable(cell))}</{tag}>" for cell in cells)
        return f"<tr>{''.join(inside)}</tr>"

    head = line(columns, "th") if columns else ""
    return f"<table>{head}{''.join(line(row, 'td') for row in rows)}</table>"


def _html_picture(drawn: Any) -> str:
    import base64

    return f"<img style='max-width:100%' src='data:image/png;base64,{base64.b64encode(_png(drawn)).decode()}'>"


def figure(drawn: Any) -> bytes | None:
    """A Figure of ours, or the one around Axes of ours, as PNG for a notebook; None for others, which pyplot shows."""
    from ppsim import plot

    return _png(drawn) if plot.is_ours(drawn) else None


def _png(drawn: Any) -> bytes:
    import io

    from ppsim import plot

    picture = io.BytesIO()
    plot.write(drawn, picture)
    return picture.getvalue()


def table_of(rows: list[dict[str, Any]], console: Console, title: str = "", tight: bool = False) -> None:
    """Print plain rows as a table; ``tight``: a line each, in as many tables below each other as the width asks for."""
    from rich.table import Table
    from rich.text import Text

    if not rows:
        console.print(Text("nothing"))
        return
    cells = [{key: printable(str(value)) for key, value in row.items()} for row in rows]
    for columns in _side_by_side(cells, console.width) if tight else [list(rows[0])]:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan", title=title or None, title_justify="left")
        table.pad_edge = not tight
        for key in columns:
            table.add_column(key, overflow="fold", no_wrap=tight or key == columns[0])
        for row in cells:
            table.add_row(*(Text(row[key]) for key in columns))
        console.print(table)


def listing(rows: list[dict[str, str]], console: Console) -> None:
    """Print a row of each thing that there is; where there is no room for sources beside the rest, they come below."""
    below = bool(rows) and "source" in rows[0] and console.width < SOURCES_BESIDE
    table_of([{key: cell for key, cell in row.items() if not (below and key == "source")} for row in rows], console)
    for row in rows if below else ():
        console.print(f"{next(iter(row.values()))}: {row['source']}", soft_wrap=True)


SOURCES_BESIDE = 110
"""The narrowest console that shows a table's sources in a column."""


def _side_by_side(rows: Sequence[dict[str, str]], width: int) -> list[list[str]]:
    """As few tables as the width allows, of about equal width: the columns of each, which the first column begins."""
    widths = {key: 2 + max(len(key), *(len(row[key]) for row in rows)) for key in rows[0]}
    name, *rest = widths

    def within(limit: int) -> list[list[str]]:
        tables = [[name]]
        for key in rest:
            if len(tables[-1]) > 1 and sum(widths[k] for k in (*tables[-1], key)) - 2 > limit:
                tables.append([name])
            tables[-1].append(key)
        return tables

    least = len(within(width))
    return within(next(limit for limit in range(width + 1) if len(within(limit)) <= least))

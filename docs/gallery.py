"""The schedules: a page for each, drawn at one set of costs, and the page that lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pieces import cell, default_of, paragraphs, toctree

import ppsim
from ppsim.config.schema import schema_of
from ppsim.ops import orderfile
from ppsim.schedules import Schedule, known

RANKS, MICROBATCHES = 4, 8
COSTS = {"per": "rank", "forward": "10 ms", "input_grad": "10 ms", "weight_grad": "10 ms", "activation": "1 GiB"}
"""One set of costs for the whole gallery: F = I = W, a GiB kept by a forward of a p-th of the model."""
STREAMED = 2
"""Steps of a schedule without a flush, so that its steady state and its updates are seen."""
ORDER_FILE = "made-1f1b.csv"
SPACE = "\N{NO-BREAK SPACE}"
"""So that 330 ms stays on one line."""


def pages(out: Path) -> None:
    """A page for each schedule, and the page that lists them."""
    rows = []
    for name, schedule in sorted(known().items()):
        result = example(name, out)
        ppsim.plot.save(ppsim.plot.gantt(result), out / "gallery" / f"{name}.png")
        (out / "gallery" / f"{name}.md").write_text(_schedule_page(name, schedule, result), encoding="utf-8")
        rows.append(_gallery_row(name, schedule, result.summary))
    names = "\n".join(f"gallery/{name}" for name in sorted(known()))
    page = (
        "# Schedules\n\n"
        f"Every schedule at one set of costs: {RANKS} ranks, {MICROBATCHES} microbatches, F = I = W = 10 ms and 1 GiB "
        "of activations for a quarter of the model, free links. "
        f"Those without a flush (pipedream, pipedream_2bw) run {STREAMED} steps, of which the table has the mean.\n\n"
        f"| schedule | what it is | step | bubble | most memory |\n|---|---|---|---|---|\n"
        + "\n".join(rows)
        + f"\n\n{toctree(names, hidden=True)}"
    )
    (out / "schedules.md").write_text(page, encoding="utf-8")


def example(name: str, out: Path) -> ppsim.Result:
    """The gallery's run of a schedule."""
    pipeline = {"ranks": RANKS, "microbatches": MICROBATCHES, "steps": STREAMED if known()[name].asynchronous else 1}
    settings: dict[str, Any] = {"name": name}
    if name == "file":
        made = ppsim.simulate(ppsim.Experiment(schedule="1f1b", pipeline=pipeline, costs=COSTS))
        path = out / ORDER_FILE
        path.write_text(orderfile.write(made.orders), encoding="utf-8")
        settings["path"] = str(path)
    costs = {key: value for key, value in COSTS.items() if name != "forward_only" or not key.endswith("grad")}
    return ppsim.simulate(ppsim.Experiment(schedule=settings, pipeline=pipeline, costs=costs))


def _gallery_row(name: str, schedule: type[Schedule], summary: Mapping[str, Any]) -> str:
    shown = (
        f"[{name}](gallery/{name}.md)",
        _first_line(schedule),
        f"{1000 * summary['step_time_s']:.4g}{SPACE}ms",
        f"{100 * summary['bubble_ratio']:.1f}{SPACE}%",
        _gibibytes(summary["peak_memory_bytes"]),
    )
    return f"| {' | '.join(shown)} |"


def _gibibytes(size: int | None) -> str:
    return "–" if size is None else f"{size / 2**30:.3g}{SPACE}GiB"


def _first_line(schedule: type[Schedule]) -> str:
    return (schedule.__doc__ or "").strip().partition("\n")[0].replace("``", "`").replace("|", "\\|")


def _schedule_page(name: str, schedule: type[Schedule], result: ppsim.Result) -> str:
    text, _, source = (schedule.__doc__ or "").partition("Source:")
    s = result.summary
    lines = [f"# {name}", "", paragraphs(text), "", f"![{name}: Gantt chart]({name}.png)", ""]
    lines += [
        f"- step time {1000 * s['step_time_s']:.4g} ms, bubble ratio {100 * s['bubble_ratio']:.1f} %",
        f"- microbatches in flight, by rank: {', '.join(str(row['peak_in_flight']) for row in s['per_rank'])}",
        f"- most memory, by rank: {', '.join(_gibibytes(row['peak_memory_bytes']) for row in s['per_rank'])}",
    ]
    if s["period_s"] is not None:
        lines.append(f"- steady state: {1000 * s['period_s']:.4g} ms per microbatch")
    if result.plan.asynchronous:
        lines.append(
            f"- versions of the weights, by rank: {', '.join(str(r['weight_versions']) for r in s['per_rank'])}"
        )
    if s["theory"]:
        form = s["theory"]
        lines.append(f"- closed form: {1000 * form['makespan_s']:.4g} ms ({form['source']}; {form['assumes']})")
    if source:
        lines += ["", f"Source: {' '.join(source.split())}"]
    lines += ["", "## Settings", "", *_fields(schedule)]
    return "\n".join(lines) + "\n"


def _fields(model: type[Schedule]) -> Iterator[str]:
    fields = {key: field for key, field in model.model_fields.items() if key != "name"}
    if not fields:
        yield "It has none."
        return
    schema = schema_of(model)["properties"]
    yield "| setting | default | what it is |"
    yield "|---|---|---|"
    for key, field in fields.items():
        default = "required" if field.is_required() else default_of(field.get_default(call_default_factory=True))
        yield f"| `{key}` | {default} | {cell(schema[key].get('description', ''))} |"

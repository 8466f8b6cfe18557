"""Pages that are made of the product itself: gallery, reference, papers, notebooks. So nothing is written twice."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import ppsim
from ppsim.config.schema import json_schema, schema_of
from ppsim.metrics import known as metrics
from ppsim.metrics.base import Scope
from ppsim.papers.paper import known as papers
from ppsim.papers.paper import named
from ppsim.schedules import Schedule, known

RANKS, MICROBATCHES = 4, 8
COSTS = {"per": "rank", "forward": "10 ms", "input_grad": "10 ms", "weight_grad": "10 ms", "activation": "1 GiB"}
"""One set of costs for the whole gallery: F = I = W, a GiB kept by a forward of a p-th of the model."""
ORDER_FILE = "made-1f1b.csv"
SPACE = "\N{NO-BREAK SPACE}"
"""So that 330 ms stays on one line."""


def everything(docs: Path) -> None:
    """Write all generated pages into ``docs/generated``."""
    out = docs / "generated"
    shutil.rmtree(out, ignore_errors=True)
    (out / "gallery").mkdir(parents=True)
    gallery(out)
    (out / "config.md").write_text(config_reference(), encoding="utf-8")
    (out / "commands.md").write_text(commands(), encoding="utf-8")
    (out / "metrics.md").write_text(metric_table(), encoding="utf-8")
    (out / "python.md").write_text(python_reference(), encoding="utf-8")
    (out / "papers.md").write_text(paper_pages(docs.parent / "results" / "reference" / "papers.csv"), encoding="utf-8")
    for name in ("ARCHITECTURE", "CONTRIBUTING"):
        (out / f"{name.lower()}.md").write_text(
            _moved((docs.parent / f"{name}.md").read_text("utf-8")), encoding="utf-8"
        )
    notebooks(docs.parent / "notebooks", out)


def _moved(text: str) -> str:
    """A page of the repository's root, with its links as they are from here."""
    for name in ("ARCHITECTURE", "CONTRIBUTING"):
        text = text.replace(f"]({name}.md", f"]({name.lower()}.md")
    return text.replace("](docs/", "](../")


def notebooks(folder: Path, out: Path) -> None:
    """Every notebook with what it prints and draws: those that are kept without are run where they lie."""
    import nbclient
    import nbformat

    (out / "notebooks").mkdir()
    for path in sorted(folder.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if not any(cell.get("outputs") for cell in notebook.cells):
            resources = {"metadata": {"path": str(folder)}}
            nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = _plain_formulas(cell.source)
        nbformat.write(notebook, out / "notebooks" / path.name)
    names = "\n".join(f"notebooks/{path.stem}" for path in sorted(folder.glob("*.ipynb")))
    page = f"# Notebooks\n\nThe tests run each of them from its first cell to its last.\n\n{_toctree(names)}"
    (out / "notebooks.md").write_text(page, encoding="utf-8")


TEX = {
    r"\\frac\{([^{}]*)\}\{([^{}]*)\}": r"(\1) / (\2)",
    r"(?<!\w)\((\w+)\)": r"\1",
    r"\\sqrt\{([^{}]*)\}": r"√(\1)",
    r"\\q?quad|\\,": " ",
    r"\\text\{([^{}]*)\}": r"\1",
    r"\\cdot": "·",
    r"\^\*": "*",
    r"\\(?:left|right)|\\(?=max|%)": "",
    r" +": " ",
    r" ,": ",",
}
"""What formulas in notebooks use of TeX, as text: what sets it in a browser would have to be loaded from elsewhere."""


def _plain_formulas(text: str) -> str:
    return re.sub(r"\$\$?([^$]+?)\$\$?", lambda found: f"`{_plain(found[1])}`", text)


def _plain(formula: str) -> str:
    for tex, plain in TEX.items():
        formula = re.sub(tex, plain, formula)
    return formula.strip()


def _toctree(names: str, hidden: bool = False) -> str:
    return f"```{{toctree}}\n:maxdepth: 1\n{':hidden:' if hidden else ''}\n\n{names}\n```\n"


def gallery(out: Path) -> None:
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
        "of activations for a quarter of the model, free links.\n\n"
        f"| schedule | what it is | step | bubble | most memory |\n|---|---|---|---|---|\n"
        + "\n".join(rows)
        + f"\n\n{_toctree(names, hidden=True)}"
    )
    (out / "schedules.md").write_text(page, encoding="utf-8")


def example(name: str, out: Path) -> ppsim.Result:
    """The gallery's run of a schedule."""
    pipeline = {"ranks": RANKS, "microbatches": MICROBATCHES}
    settings: dict[str, Any] = {"name": name}
    if name == "file":
        made = ppsim.simulate(ppsim.Experiment(schedule="1f1b", pipeline=pipeline, costs=COSTS))
        from ppsim.ops import orderfile

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
    lines = [f"# {name}", "", _paragraphs(text), "", f"![{name}: Gantt chart]({name}.png)", ""]
    lines += [
        f"- step time {1000 * s['step_time_s']:.4g} ms, bubble ratio {100 * s['bubble_ratio']:.1f} %",
        f"- microbatches in flight, by rank: {', '.join(str(row['peak_in_flight']) for row in s['per_rank'])}",
        f"- most memory, by rank: {', '.join(_gibibytes(row['peak_memory_bytes']) for row in s['per_rank'])}",
    ]
    if s["theory"]:
        form = s["theory"]
        lines.append(f"- closed form: {1000 * form['makespan_s']:.4g} ms ({form['source']}; {form['assumes']})")
    if source:
        lines += ["", f"Source: {' '.join(source.split())}"]
    lines += ["", "## Settings", "", *_fields(schedule)]
    return "\n".join(lines) + "\n"


def _paragraphs(doc: str) -> str:
    return "\n".join(line.strip() for line in doc.replace("``", "`").strip().splitlines())


def _fields(model: type[Schedule]) -> Iterator[str]:
    fields = {key: field for key, field in model.model_fields.items() if key != "name"}
    if not fields:
        yield "It has none."
        return
    schema = schema_of(model)["properties"]
    yield "| setting | default | what it is |"
    yield "|---|---|---|"
    for key, field in fields.items():
        default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        yield f"| `{key}` | {default} | {_cell(schema[key].get('description', ''))} |"


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|").replace("``", "`")


def config_reference() -> str:
    """Every setting of an experiment, from its schema."""
    schema = json_schema()
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    seen = {name for schedule in known().values() for name in [schedule.__name__]}
    lines = ["# Settings", "", "Made of the schema that `ppsim schema` prints.", "", "## experiment", ""]
    lines += _properties(schema)
    for name, definition in sorted(definitions.items()):
        if "properties" in definition and name not in seen:
            lines += [
                "",
                f"## {name}",
                "",
                _paragraphs(definition.get("description", "")),
                "",
                *_properties(definition),
            ]
    return "\n".join(lines) + "\n"


def _properties(definition: Mapping[str, Any]) -> Iterator[str]:
    required = set(definition.get("required", ()))
    yield "| key | default | what it is |"
    yield "|---|---|---|"
    for key, value in definition.get("properties", {}).items():
        default = "required" if key in required else _default(value.get("default"))
        yield f"| `{key}` | {default} | {_cell(value.get('description', ''))} |"


def _default(value: object) -> str:
    """A settings' block has its own table, and what is not given has no value."""
    return "–" if value is None or isinstance(value, dict) else f"`{_cell(value)}`"


def commands() -> str:
    """Every command with its options, from the command line itself."""
    import typer

    from ppsim.cli.app import app

    group: Any = typer.main.get_command(app)
    lines = ["# Commands", ""]
    for name, command in group.commands.items():
        lines += [f"## ppsim {name}", "", _paragraphs(command.help or ""), ""]
        lines += ["| option | what it is |", "|---|---|"]
        for parameter in command.params:
            written = ", ".join(f"`{option}`" for option in getattr(parameter, "opts", [])) or f"`{parameter.name}`"
            if parameter.param_type_name == "argument":
                written = f"`{parameter.metavar or parameter.name.upper()}`"
            lines.append(f"| {written} | {_cell(getattr(parameter, 'help', None) or '')} |")
        lines.append("")
    return "\n".join(lines) + "\n"


def metric_table() -> str:
    """Every figure with its definition."""
    lines = ["# Figures", "", "What `summary.json` holds, as `ppsim list metrics` says it.", ""]
    for scope in get_args(Scope):
        lines += [f"## per {scope}", "", "| figure | unit | better | definition |", "|---|---|---|---|"]
        lines += [
            f"| `{name}` | {found.unit} | {found.better or ''} | {_cell(found.definition)} |"
            for name, found in metrics(scope).items()
        ]
        lines.append("")
    return "\n".join(lines) + "\n"


def python_reference() -> str:
    """Public names with their docstrings."""
    lines = ["# Python", "", "```{eval-rst}", ".. currentmodule:: ppsim", ""]
    for name in sorted(name for name in dir(ppsim) if not name.startswith("_") and name != "plot"):
        value = getattr(ppsim, name)
        kind = "autoexception" if isinstance(value, type) and issubclass(value, Exception) else None
        kind = kind or ("autoclass" if isinstance(value, type) else "autofunction")
        lines += [f".. {kind}:: {name}", *(["   :members:"] if kind == "autoclass" else []), ""]
    for name in ("gantt", "memory"):
        lines += [f".. autofunction:: ppsim.plot.{name}", ""]
    return "\n".join([*lines, "```"]) + "\n"


def paper_pages(table: Path) -> str:
    """What is reproduced, and how near it comes, as the table that is kept says."""
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines())) if table.exists() else []
    lines = [
        "# Published experiments",
        "",
        "`ppsim reproduce` simulates these; the figures are those of its last run.",
        "",
    ]
    for name in papers():
        paper = named(name)
        mine = [row for row in rows if row["paper"] == name]
        lines += [f"## {paper.title}", "", f"Source: {paper.source}.", ""]
        lines += [f"- assumed: {text}" for text in paper.assumes] + [""]
        lines += ["| figure | kind | within | targets met | mean error | worst |", "|---|---|---|---|---|---|"]
        for figure in paper.figures:
            judged = [row for row in mine if row["figure"] == figure.name and row["judged"] == "True"]
            shown = (_cell(figure.what), figure.kind, str(figure.tolerance or "–"), *_errors(judged, figure.kind))
            lines.append(f"| {' | '.join(shown)} |")
        lines += ["", *(f"- missed: {row['row']}: {row['note']}" for row in mine if row["met"] == "False"), ""]
    return "\n".join(lines) + "\n"


def _errors(judged: list[dict[str, str]], kind: str) -> tuple[str, str, str]:
    """Targets met, the mean error and the worst; an order has no error, what is only shown has no target."""
    errors = [float(row["error"]) for row in judged if row["error"] and kind != "order"]
    met = f"{sum(row['met'] == 'True' for row in judged)} of {len(judged)}" if judged else "–"
    if not errors:
        return met, "–", "–"
    return met, f"{100 * sum(map(abs, errors)) / len(errors):.2f} %", f"{100 * max(errors, key=abs):+.2f} %"

"""Reference pages: settings, commands, figures, Python, published experiments."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pieces import cell, default_of, paragraphs

import ppsim
from ppsim.config.schema import json_schema
from ppsim.metrics import known as metrics
from ppsim.metrics.base import Scope
from ppsim.papers.paper import Figure, named
from ppsim.papers.paper import known as papers
from ppsim.schedules import known


def settings() -> str:
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
                paragraphs(definition.get("description", "")),
                "",
                *_properties(definition),
            ]
    return "\n".join(lines) + "\n"


def _properties(definition: Mapping[str, Any]) -> Iterator[str]:
    required = set(definition.get("required", ()))
    yield "| key | default | what it is |"
    yield "|---|---|---|"
    for key, value in definition.get("properties", {}).items():
        default = "required" if key in required else default_of(value.get("default"))
        yield f"| `{key}` | {default} | {cell(value.get('description', ''))} |"


def commands() -> str:
    """Every command with its options, from the command line itself."""
    import typer

    from ppsim.cli.app import app

    group: Any = typer.main.get_command(app)
    lines = ["# Commands", ""]
    for name, command in group.commands.items():
        lines += [f"## ppsim {name}", "", paragraphs(command.help or ""), ""]
        lines += ["| option | what it is |", "|---|---|"]
        for parameter in command.params:
            written = ", ".join(f"`{option}`" for option in getattr(parameter, "opts", [])) or f"`{parameter.name}`"
            if parameter.param_type_name == "argument":
                written = f"`{parameter.metavar or parameter.name.upper()}`"
            lines.append(f"| {written} | {cell(getattr(parameter, 'help', None) or '')} |")
        lines.append("")
    return "\n".join(lines) + "\n"


def figures() -> str:
    """Every figure with its definition."""
    lines = ["# Figures", "", "What `summary.json` holds, as `ppsim list metrics` says it.", ""]
    for scope in get_args(Scope):
        lines += [f"## per {scope}", "", "| figure | unit | better | definition |", "|---|---|---|---|"]
        lines += [
            f"| `{name}` | {found.unit} | {found.better or ''} | {cell(found.definition)} |"
            for name, found in metrics(scope).items()
        ]
        lines.append("")
    return "\n".join(lines) + "\n"


def python() -> str:
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


def published(table: Path) -> str:
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
        lines += [f"- assumed: {text}" for text in paper.assumes]
        lines += [line for figure in paper.figures for line in _given(figure)] + [""]
        lines += ["| figure | kind | within | targets met | mean error | worst |", "|---|---|---|---|---|---|"]
        for figure in paper.figures:
            judged = [row for row in mine if row["figure"] == figure.name and row["judged"] == "True"]
            shown = (cell(figure.what), figure.kind, str(figure.tolerance or "–"), *_errors(judged, figure.kind))
            lines.append(f"| {' | '.join(shown)} |")
        lines += ["", *(f"- missed: {row['row']}: {row['note']}" for row in mine if row["met"] == "False"), ""]
    return "\n".join(lines) + "\n"


def _given(figure: Figure) -> list[str]:
    """What a figure assumes, and which constants were fitted on which of its rows."""
    lines = [f"- {figure.name}: assumed: {text}" for text in figure.assumes]
    if figure.constants_of is not None:
        lines.append(f"- {figure.name}: with the constants of {figure.constants_of}")
    if figure.fit is not None:
        constants = "; ".join(f"`{name}`, {constant.what}" for name, constant in figure.fit.constants.items())
        lines.append(f"- {figure.name}: fitted where `{figure.fit.rows.text}`: {constants}")
    return lines


def _errors(judged: list[dict[str, str]], kind: str) -> tuple[str, str, str]:
    """Targets met, the mean error and the worst; an order has no error, what is only shown has no target."""
    errors = [float(row["error"]) for row in judged if row["error"] and kind != "order"]
    met = f"{sum(row['met'] == 'True' for row in judged)} of {len(judged)}" if judged else "–"
    if not errors:
        return met, "–", "–"
    return met, f"{100 * sum(map(abs, errors)) / len(errors):.2f} %", f"{100 * max(errors, key=abs):+.2f} %"

"""What ppsim knows by name: ``ppsim list``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from ppsim import formats
from ppsim.costs.transformer import TransformerModel, active_parameters, expand, parameters
from ppsim.display.console import table_of
from ppsim.hardware import catalog
from ppsim.metrics import Metric
from ppsim.metrics import known as of_scope
from ppsim.metrics.base import Scope
from ppsim.papers import paper as papers
from ppsim.schedules import Schedule, known

if TYPE_CHECKING:
    from rich.console import Console

COMMANDS: dict[formats.Does, str] = {"export": "export", "launch": "import", "link": "calibrate link", "trace": "fit"}
"""The command that takes a format."""


def rows(what: str) -> list[dict[str, Any]]:
    """Rows of 'schedules', 'devices', 'links', 'models', 'metrics', 'formats' or 'papers'."""
    if what == "schedules":
        return [_schedule(name, schedule) for name, schedule in sorted(known().items())]
    if what == "metrics":
        return [_metric(found) for scope in get_args(Scope) for found in of_scope(scope).values()]
    if what == "formats":
        return [{"format": f.name, "command": COMMANDS[f.does], "what": f.what} for f in formats.known()]
    if what == "papers":
        return [_paper(papers.named(name)) for name in papers.known()]
    if what == "models":
        return [_model(name) for name in catalog.models()]
    table = {"devices": catalog.devices, "links": catalog.links}[what]()
    columns = list(dict.fromkeys(key for row in table.values() for key in row if key not in {"source", "note"}))
    return [
        {what[:-1]: name, **{key: _cell(row.get(key, "")) for key in columns}, "source": row["source"]}
        for name, row in table.items()
    ]


def _metric(found: Metric) -> dict[str, Any]:
    needs = ", ".join(found.needs)
    return {
        "metric": found.name, "scope": found.scope, "unit": found.unit, "better": found.better or "", "needs": needs,
        "definition": found.definition,
    }  # fmt: skip


def _paper(paper: papers.Paper) -> dict[str, Any]:
    shown = ", ".join(figure.name for figure in paper.figures)
    return {"paper": paper.folder.name, "figures": shown, "title": paper.title, "source": paper.source}


def _cell(value: Any) -> Any:
    """A value, or the values of a mapping, in a word."""
    return ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, Mapping) else value


def _model(name: str) -> dict[str, Any]:
    """A model's sizes, and its parameters, which follow from them."""
    model = TransformerModel.model_validate(expand(name))
    whole, active = parameters(model), active_parameters(model)
    experts = "" if model.experts is None else f"{model.top_k} of {model.experts}"
    return {
        "model": name,
        "parameters": f"{whole / 1e9:.4g} B" + (f", {active / 1e9:.4g} B active" if active != whole else ""),
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "kv_heads": model.groups if model.latent is None else "latent",
        "ffn": model.width,
        "experts": experts + (f" + {model.shared_experts}" if model.shared_experts else ""),
        "vocabulary": model.vocabulary,
        "sequence": model.sequence,
        "source": catalog.row("model", name)["source"],
    }


def _schedule(name: str, schedule: type[Schedule]) -> dict[str, Any]:
    settings = {key: field.default for key, field in schedule.model_fields.items() if key != "name"}
    summary = (schedule.__doc__ or "").strip().partition("\n")[0].replace("``", "'")
    return {"schedule": name, "settings": ", ".join(settings), "what": summary}


SOURCES_BESIDE = 110
"""The narrowest console that shows a table's sources in a column."""


def listing(rows: list[dict[str, str]], console: Console) -> None:
    """Print a row of each thing that there is; where there is no room for sources beside the rest, they come below."""
    below = bool(rows) and "source" in rows[0] and console.width < SOURCES_BESIDE
    table_of([{key: cell for key, cell in row.items() if not (below and key == "source")} for row in rows], console)
    for row in rows if below else ():
        console.print(f"{next(iter(row.values()))}: {row['source']}", soft_wrap=True)

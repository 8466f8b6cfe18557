"""What ppsim knows by name: rows for ``ppsim list``."""

from __future__ import annotations

from typing import Any

from ppsim import formats
from ppsim.hardware import catalog
from ppsim.metrics import METRICS
from ppsim.schedules import Schedule, known

COMMANDS: dict[formats.Does, str] = {"export": "export", "launch": "import", "trace": "fit"}
"""The command that takes a format."""


def rows(what: str) -> list[dict[str, Any]]:
    """Rows of 'schedules', 'devices', 'links', 'models', 'metrics' or 'formats'."""
    if what == "schedules":
        return [_schedule(name, schedule) for name, schedule in sorted(known().items())]
    if what == "metrics":
        return [{"metric": m.name, "unit": m.unit, "definition": m.definition} for m in METRICS.values()]
    if what == "formats":
        return [{"format": f.name, "command": COMMANDS[f.does], "what": f.what} for f in formats.known()]
    table = {"devices": catalog.devices, "links": catalog.links, "models": catalog.models}[what]()
    columns = list(dict.fromkeys(key for row in table.values() for key in row if key not in {"source", "note"}))
    return [
        {what[:-1]: name, **{key: row.get(key, "") for key in columns}, "source": row["source"]}
        for name, row in table.items()
    ]


def _schedule(name: str, schedule: type[Schedule]) -> dict[str, Any]:
    settings = {key: field.default for key, field in schedule.model_fields.items() if key != "name"}
    summary = (schedule.__doc__ or "").strip().splitlines()[0]
    return {"schedule": name, "settings": ", ".join(settings), "what": summary}

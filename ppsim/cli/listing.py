"""``ppsim list`` and ``ppsim schema``: what there is, and what an experiment may say."""

from __future__ import annotations

from enum import StrEnum

import typer


class Listing(StrEnum):
    """What there is a list of."""

    schedules = "schedules"
    devices = "devices"
    links = "links"
    models = "models"
    metrics = "metrics"
    formats = "formats"
    papers = "papers"


def list_(what: Listing) -> None:
    """List schedules, devices, links, models, metrics, file formats or published papers."""
    from ppsim.display.console import console
    from ppsim.display.listing import listing, rows

    listing(rows(what.value), console())


def schema() -> None:
    """Print the JSON Schema of experiments, for an editor."""
    import json

    from ppsim.config.schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))

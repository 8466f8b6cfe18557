"""The JSON Schema of experiments, so that an editor knows the keys."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from ppsim.config.experiment import Experiment

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """Leaves out defaults that are exact numbers: as text they would lack their unit."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        found = super().default_schema(schema)
        if isinstance(schema.get("default"), Fraction):
            found.pop("default", None)
        return found


def json_schema() -> dict[str, Any]:
    """The schema of a config file, shorthands included."""
    return {"$schema": DIALECT, **Experiment.model_json_schema(schema_generator=_Generator)}

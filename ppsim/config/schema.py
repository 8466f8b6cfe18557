"""The JSON Schema of experiments, so that an editor knows the keys and shows what they mean."""

from __future__ import annotations

import ast
import inspect
import textwrap
from fractions import Fraction
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from ppsim.config import yamlfile
from ppsim.config.experiment import Experiment

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """Fills in the text under each field, and leaves out defaults that are exact numbers, which lack their unit."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        found = super().default_schema(schema)
        if isinstance(schema.get("default"), Fraction):
            found.pop("default", None)
        return found

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        found = super().model_schema(schema)
        for name, text in _field_texts(schema["cls"]).items():
            if name in found.get("properties", {}):
                found["properties"][name]["description"] = text
        return found


def _field_texts(model: type[BaseModel]) -> dict[str, str]:
    """The string under each field of a model and of those that it extends.

    Pydantic can gather them when a class is made; that would read the source of every model at every start.
    """
    texts: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if not issubclass(cls, BaseModel) or cls.__module__.startswith("pydantic"):
            continue
        try:
            source = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue  # a class made in a console has no source to read
        body = source.body if isinstance(source, ast.ClassDef) else []
        for field, following in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
                and isinstance(following.value.value, str)
            ):
                texts[field.target.id] = inspect.cleandoc(following.value.value)
    return texts


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of one model, with the text under each of its fields as its description."""
    return model.model_json_schema(schema_generator=_Generator)


def json_schema() -> dict[str, Any]:
    """The schema of a config file, shorthands included."""
    return {"$schema": DIALECT, **schema_of(Experiment), "patternProperties": {f"^{yamlfile.OWN}": {}}}

"""Mistakes: pydantic's findings in our words, each with the key it belongs to and the nearest thing that works."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ppsim._model import shown_place
from ppsim.errors import ConfigError, did_you_mean, printable


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong: the keys that lead to it, and the message."""

    place: tuple[int | str, ...]
    message: str

    @property
    def key(self) -> str:
        """The dotted path."""
        return ".".join(map(str, self.place))

    def __str__(self) -> str:
        return printable(f"{self.key}: {self.message}" if self.place else self.message)


def config_error(mistakes: Sequence[Mistake]) -> ConfigError:
    """All mistakes as one error, a line each; ``error.mistakes`` keeps them apart."""
    error = ConfigError("\n".join(str(mistake) for mistake in mistakes))
    error.mistakes = tuple(mistakes)
    return error


def from_pydantic(error: ValidationError, model: type[BaseModel], under: tuple[str, ...] = ()) -> Iterator[Mistake]:
    """Every mistake that pydantic found, in our words; ``under`` is where the model sits in the file."""
    for detail in error.errors(include_url=False):
        place = under + shown_place(detail["loc"])
        yield Mistake(place, _message(detail, model, detail["loc"]))


def _message(detail: ErrorDetails, model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    kind, context, value = detail["type"], detail.get("ctx", {}), detail.get("input")
    match kind:
        case "extra_forbidden":
            fields = _fields_at(model, loc[:-1])
            hint = did_you_mean(str(loc[-1]), fields)
            return f"unknown key{hint or '; known: ' + ', '.join(fields)}{_elsewhere(loc)}"
        case "missing":
            return "missing"
        case "literal_error" | "enum":
            choices = [c.strip("'\" ") for c in str(context["expected"]).replace(" or ", ", ").split(",")]
            hint = did_you_mean(str(value), choices)
            return f"{_shown(value)} is not one of {', '.join(choices)}{hint}"
        case "int_type" | "int_parsing" | "int_from_float":
            return f"{_shown(value)} is not a whole number{_whole_meant(value)}"
        case "float_type" | "float_parsing" | "finite_number":
            return f"{_shown(value)} is not a number"
        case "bool_type" | "bool_parsing":
            return f"{_shown(value)} is neither true nor false"
        case "string_type":
            return f"{_shown(value)} is not text"
        case "greater_than_equal":
            return f"{_shown(value)} is too small; at least {context['ge']}"
        case "less_than_equal":
            return f"{_shown(value)} is too large; at most {context['le']}"
        case "path_type":
            return f"{_shown(value)} is not a file's path"
        case "list_type":
            return f"{_shown(value)} is not a list"
        case "too_short" | "too_long":
            return f"the list has {context['actual_length']} values, expected {_expected(context)}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{_shown(value)} is not a mapping of settings"
        case "string_pattern_mismatch" if loc[-1] != "name":
            return f"{_shown(value)} is not of the form {context['pattern']}"
        case "string_too_long":
            return f"a text of {len(str(value))} characters; at most {context['max_length']}"
        case "string_pattern_mismatch":
            return (
                f"{_shown(value)} can't name a folder; letters, digits, '.', '_' and '-' can, beginning with a letter "
                "or digit"
            )
        case "value_error":
            return str(context["error"])
        case _:
            return f"{detail['msg']} (given: {_shown(value)})"


def _whole_meant(value: object) -> str:
    """The whole number that a text stands for, or those beside a number."""
    if isinstance(value, str) and (digits := value.strip().replace("_", "").replace(",", "")).isdecimal():
        return f", but text; write {int(digits)}" if len(digits) <= 20 else ""
    if isinstance(value, float) and abs(value) < 1e15:
        return f"; {math.floor(value)} and {math.ceil(value)} are"
    return ""


def _elsewhere(loc: tuple[int | str, ...]) -> str:
    """Which schedules have a setting that this one hasn't."""
    from ppsim.schedules.registry import with_setting

    names = with_setting(str(loc[-1])) if loc[0] == "schedule" and len(loc) == 3 else []
    return f"; {', '.join(names)} {'has' if len(names) == 1 else 'have'} it" if names else ""


def _expected(context: dict[str, Any]) -> str:
    low, high = context.get("min_length"), context.get("max_length")
    return str(low if low is not None else high)


def _shown(value: object) -> str:
    if value is None:
        return "an empty value"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = printable(str(value))
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"'{text}'" if isinstance(value, str) else text


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys that are known at a place of the model."""
    here: list[type[BaseModel]] = [model]
    for part in loc:
        if isinstance(part, str) and part.startswith("<"):
            named = [m for m in here if part[1:-1] in _names(m)]
            here = named or here
        elif isinstance(part, str):
            here = [m for parent in here if part in parent.model_fields for m in models_in(parent.model_fields[part])]
    return sorted({key for found in here for key in found.model_fields})


def _names(model: type[BaseModel]) -> list[Any]:
    """What a model of several alternatives is chosen by: its name, or its kind."""
    found = (model.model_fields.get(key) for key in ("name", "kind"))
    return [choice for field in found if field is not None for choice in (field.default, *get_args(field.annotation))]


def models_in(field: Any) -> list[type[BaseModel]]:
    """The models that a field may hold; for a schedule, all that are known."""
    from ppsim.schedules import Schedule, known

    found: list[type[BaseModel]] = []
    queue: list[Any] = [field.annotation, *field.metadata]
    while queue:
        kind = queue.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += known().values() if kind is Schedule else [kind]
        queue += get_args(kind)
    return found

"""The frozen base of every setting, and the types that settings share."""

from __future__ import annotations

from numbers import Integral
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Strict, Tag

T = TypeVar("T")


class Model(BaseModel):
    """A frozen group of settings that refuses unknown keys; the string under a field is its description."""

    # Validators are built when a config is read, all at once: at import each would be built, and again inside the next.
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)


def one_or_list(value: Any) -> str:
    """The alternative that a value is held against: '<one>' or '<list>'."""
    return "<list>" if isinstance(value, list | tuple) else "<one>"


# A tag says which alternative a value was held against, so that its mistakes are those of that alternative alone;
# what stands in angle brackets is left out where a mistake's place is shown.
OneOrMore = Annotated[Annotated[T, Tag("<one>")] | Annotated[list[T], Tag("<list>")], Discriminator(one_or_list)]
"""A value, or a list of values."""


def _whole(value: Any) -> Any:
    if isinstance(value, Integral) and not isinstance(value, bool):  # numpy's integers, as in a notebook's loop
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole, json_schema_input_type=int), Strict()]
"""A whole number, 1e3 among them; neither text nor a truth value passes for one."""
Flag = Annotated[bool, Strict()]
"""true or false."""


def shown_place(loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The keys of a mistake's place, without the alternatives' tags."""
    return tuple(part for part in loc if not (isinstance(part, str) and part.startswith("<")))

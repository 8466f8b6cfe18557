"""What a sweep varies: grids, zips, lists and conditions over any key of the experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    field_validator,
    model_serializer,
)

from ppsim._model import Model, OneOrMore, Whole
from ppsim.config import keys
from ppsim.config.condition import Condition
from ppsim.costs import KINDS
from ppsim.errors import ConfigError, did_you_mean, printable, shown

MOST_VALUES = 1_000_000
MOST_TRIED = 1000
"""Values of a list that are looked at before anything runs; others are looked at with their case."""
Place = tuple[int | str, ...]


class Range(Model):
    """Whole numbers from ``first`` to ``last``, both included."""

    first: Whole
    """The first number."""
    last: Whole
    """No number is above it."""
    step: Whole = Field(1, ge=1)
    """What is added to get the next number."""
    times: Whole | None = Field(None, ge=2)
    """What the number is multiplied by to get the next, instead of ``step``."""

    def values(self) -> list[int]:
        """The numbers."""
        if self.times is None:
            return list(range(self.first, self.last + 1, self.step))
        found = []
        value = self.first
        while 0 < value <= self.last:
            found.append(value)
            value *= self.times
        return found

    def wrong(self) -> str | None:
        """What is wrong with it."""
        if self.times is not None and self.first < 1:
            return f"first is {self.first}; multiplied by {self.times}, it never gets to {self.last}"
        if self.last < self.first:
            return f"last, {self.last}, is below first, {self.first}"
        if self.times is None and (self.last - self.first) // self.step >= MOST_VALUES:
            return f"more than {MOST_VALUES:,} values"
        return None


def _list_or_range(value: Any) -> str:
    return "<range>" if isinstance(value, Mapping | Range) else "<list>"


Values = Annotated[
    Annotated[list[Any], Tag("<list>")] | Annotated[Range, Tag("<range>")], Discriminator(_list_or_range)
]
"""A list of values, or {first: 1, last: 128, times: 2}."""


def listed(values: Any) -> list[Any]:
    """The values of a list or of a Range."""
    return values.values() if isinstance(values, Range) else list(values)


class Space(Model):
    """Settings that vary: every one of ``grid`` with every one of ``zip`` and every one of ``list``."""

    grid: dict[str, Values] = Field({})
    """Each key's values; every combination is a case."""
    zip: dict[str, Values] = Field({})
    """Each key's values, of the same number; the first of each together, then the second of each, …"""
    list: Items = Field([])
    """Mappings of settings, a case each; with a grid, zip or list of its own inside, an item is as many as that is."""
    where: OneOrMore[str] = Field([])
    """What must hold, as in 'microbatches >= ranks'; cases where it doesn't are left out."""

    @model_serializer(mode="wrap")
    def _what_is_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value not in ({}, [], None)}

    @field_validator("where")
    @classmethod
    def _readable(cls, where: Any) -> Any:
        for text in [where] if isinstance(where, str) else where:
            Condition(text)
        return where

    @property
    def fixed(self) -> Mapping[str, Any]:
        """Settings that all cases of this space share."""
        return self.model_extra or {}

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """``where``, ready to be asked."""
        return tuple(Condition(text) for text in ([self.where] if isinstance(self.where, str) else self.where))

    def own_keys(self) -> Iterator[tuple[Place, str]]:
        """(place, key) of every key that this level varies or fixes."""
        for part in ("grid", "zip"):
            yield from (((part, key), key) for key in getattr(self, part))
        yield from (((key,), key) for key in self.fixed)

    def swept(self) -> dict[str, None]:
        """Every key that some case sets, in the order of the file."""
        found = {key: None for _, key in self.own_keys()}
        for item in self.list:
            found |= item.swept()
        return found

    def values_of(self, key: str) -> Iterator[Any]:
        """Every value that a case may set a key to."""
        for part in (self.grid, self.zip):
            yield from listed(part.get(key, []))
        if key in self.fixed:
            yield self.fixed[key]
        for item in self.list:
            yield from item.values_of(key)

    def problems(self, root: type[Model], outer: Mapping[str, str] | None = None) -> Iterator[tuple[Place, str]]:
        """(place, what is wrong) with the keys, the numbers of values and the names in conditions."""
        taken = dict(outer or {})
        for place, key in self.own_keys():
            word = ".".join(map(str, place[:-1])) or "fixed"
            if key.split(".")[0] in ("sweep", "name"):
                yield place, "can't be varied; settings of the simulation can"
            elif wrong := keys.problem(key, root):
                yield place, wrong
            elif key in taken:
                yield place, f"is given twice; {taken[key]} has it, too"
            taken.setdefault(key, word)
        for part in ("grid", "zip"):
            for key, values in getattr(self, part).items():
                if wrong := values.wrong() if isinstance(values, Range) else None if values else "no values":
                    yield (part, key), wrong
        yield from self._wrong_values(root)
        lengths = {key: len(listed(values)) for key, values in self.zip.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{printable(key)} has {length}" for key, length in lengths.items())
            yield ("zip",), f"the lists must be of equal length: {told}"
        for index, item in enumerate(self.list):
            if not (item.grid or item.zip or item.list or item.fixed):
                yield ("list", index), "sets nothing"
            yield from ((("list", index, *place), text) for place, text in item.problems(root, taken))

    def _wrong_values(self, root: type[Model]) -> Iterator[tuple[Place, str]]:
        """(place, what is wrong) with values that no case could have, such as an unknown schedule's name."""
        for part in ("grid", "zip"):
            for key, values in getattr(self, part).items():
                if isinstance(values, Range):
                    tried: list[tuple[Place, Any]] = [((part, key), values.first)]
                else:
                    tried = [((part, key, index), value) for index, value in enumerate(values[:MOST_TRIED])]
                yield from ((place, text) for place, value in tried if (text := wrong_alone(key, value, root)))
        yield from (((key,), text) for key, value in self.fixed.items() if (text := wrong_alone(key, value, root)))

    def condition_problems(self, root: type[Model], swept: Mapping[str, None]) -> Iterator[tuple[Place, str]]:
        """(place, what is wrong) with the names in conditions."""
        for index, condition in enumerate(self.conditions):
            place: Place = ("where",) if isinstance(self.where, str) else ("where", index)
            yield from ((place, text) for name in condition.names if (text := unknown(name, root, swept)))
        for index, item in enumerate(self.list):
            yield from ((("list", index, *place), text) for place, text in item.condition_problems(root, swept))


def wrong_alone(key: str, value: Any, root: type[Model]) -> str | None:
    """What is wrong with a value whatever the other settings are, None where nothing is or where that isn't known."""
    parts = tuple(key.split("."))
    if parts[0] in ("sweep", "name") or keys.problem(key, root) is not None:
        return None
    found = [_wrong_at(parts, settings, root) for settings in _alternatives(parts, value)]
    return None if None in found else next(iter(found), None)


def _alternatives(parts: tuple[str, ...], value: Any) -> Iterator[dict[str, Any]]:
    """The settings with that value alone; for a key of costs with every kind that has it."""
    settings: Any = value
    for part in reversed(parts):
        settings = {part: settings}
    if len(parts) == 1 or parts[0] != "costs":
        yield settings
        return
    for kind, costs in KINDS.items():
        if parts[1] in costs.model_fields:
            yield {"costs": {"kind": kind, **settings["costs"]}}


def _wrong_at(parts: tuple[str, ...], settings: dict[str, Any], root: type[Model]) -> str | None:
    try:
        root(**settings)
    except ConfigError as error:
        for mistake in error.mistakes:
            if mistake.place[: len(parts)] == parts and mistake.message != "missing":
                inside = ".".join(map(str, mistake.place[len(parts) :]))
                return f"{inside}: {mistake.message}" if inside else str(mistake.message)
    return None


DERIVED = ("stages", "virtual_stages", "gpus")
"""Names that a condition may use beside settings: the model's stages, a rank's stages, all devices (ranks ·
data_parallel, times tensor_parallel · context_parallel where costs follow from a model)."""


def meant(name: str, root: type[Model], swept: Mapping[str, None]) -> list[str]:
    """The keys that a name in a condition may stand for: a dotted path, or the last part of one; swept ones first."""
    if "." in name or name in swept:
        return [name] if keys.problem(name, root) is None else []
    among = [key for key in swept if key.rpartition(".")[2] == name]
    paths = among or list(keys.by_last_part(root).get(name, ()))
    of_pipeline = [path for path in paths if path.startswith("pipeline.") or path == name]
    return of_pipeline[:1] or paths


def unknown(name: str, root: type[Model], swept: Mapping[str, None]) -> str | None:
    """What is wrong with a name in a condition."""
    if name in DERIVED:
        return None
    paths = meant(name, root, swept)
    if len(paths) == 1:
        return None
    if paths:
        return f"{shown(name)} could be {' or '.join(paths[:4])}; write the whole path"
    choices = [*DERIVED, *keys.by_last_part(root)]
    return f"there is no setting {shown(name)}{did_you_mean(name.rpartition('.')[2], choices)}"


class Item(Space):
    """One case as a mapping of settings, or a space of its own."""

    model_config = ConfigDict(extra="allow")


Items = list[Item]
Space.model_rebuild()
Item.model_rebuild()


class Sweep(Space):
    """What `ppsim sweep` varies."""

    samples: Whole | None = Field(None, ge=1)
    """Only so many cases, drawn at random."""
    seed: Whole = Field(0, ge=0)
    """Which cases are drawn: the same seed draws the same ones."""

    def all_problems(self, root: type[Model]) -> Iterator[tuple[Place, str]]:
        """(place, what is wrong), over all levels."""
        if not (self.grid or self.zip or self.list):
            yield (), "nothing varies; write grid:, zip: or list: under it"
        yield from self.problems(root)
        yield from self.condition_problems(root, self.swept())

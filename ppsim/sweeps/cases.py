"""From what a case sets to its experiment and its id; what was settled for one case serves the next."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from ppsim.config import keys, yamlfile
from ppsim.config.agreement import Remembered
from ppsim.config.condition import Condition
from ppsim.config.experiment import Experiment
from ppsim.config.load import anchored, default_name
from ppsim.config.mistakes import config_error
from ppsim.config.resolved import SEMANTICS, id_of, section_text
from ppsim.config.sweep import DERIVED, Sweep, meant
from ppsim.config.yamlfile import Document
from ppsim.costs.partition.field import PIPEDREAM
from ppsim.errors import ConfigError, PpsimError
from ppsim.schedules import known
from ppsim.sweeps.space import Changes, chosen

REMEMBERED = 2000
_UNSET = {key: field.default for key, field in Experiment.model_fields.items() if not field.is_required()}


@dataclass(frozen=True)
class Base:
    """What all cases start from: a config's settings without its sweep, as JSON text, and the file they are from."""

    text: str
    path: Path

    @classmethod
    def of(cls, document: Document, path: Path) -> Base:
        """The base of a config."""
        settings = {key: value for key, value in document.data.items() if key != "sweep"}
        settings.setdefault("name", default_name(path))
        return cls(json.dumps(settings, default=str), path)


class Case(NamedTuple):
    """One case: its id, its number in the sweep, what it sets, its settings, and why it isn't legal (None: it is)."""

    id: str
    number: int
    changes: Changes
    settings: Mapping[str, Any]
    reason: str | None

    @property
    def text(self) -> str:
        """What it sets, as JSON."""
        return _JSON.encode(self.changes)


_JSON = json.JSONEncoder(default=str)


class Settled(NamedTuple):
    """A case's settings, settled: its sections as validated models, and in canonical form as text."""

    name: str
    models: dict[str, Any]
    texts: dict[str, str]

    @property
    def id(self) -> str:
        """``config_id`` of its experiment."""
        return id_of(self.texts)


class Resolver:
    """Settings of cases → experiments. What cases share is settled once, section by section.

    A section's plain settings are kept by what a case sets in it; its validated model and canonical text by these
    settings as JSON; and whether some of the models agree by the models.
    """

    def __init__(self, base: Base) -> None:
        self.base = base
        self._document = Document.from_mapping(json.loads(base.text), str(base.path))
        self._plain = anchored(self._document.data, self.base.path.parent)
        self._changed: dict[tuple[str, str], Any] = {}
        self._written: dict[int, tuple[Any, str]] = {}
        self._sections: dict[tuple[str, str], tuple[Any, str]] = {}
        self._agreed = Remembered(REMEMBERED)
        self._like: Experiment | None = None

    def _forget_if_many(self) -> None:
        """Those that are kept by an object's id keep the object, and so go together with it."""
        if max(len(self._changed), len(self._written), len(self._sections)) > REMEMBERED:
            for kept in (self._changed, self._written, self._sections):
                kept.clear()

    def settings(self, changes: Changes) -> dict[str, Any]:
        """The plain settings of a case. Raises ConfigError where a key can't be set."""
        self._forget_if_many()
        of_section: dict[str, Changes] = {}
        for key, value in changes.items():
            of_section.setdefault(key.partition(".")[0].strip(), {})[key] = value
        settings = dict(self._plain)
        for section, its in of_section.items():
            at = section, repr(its)
            if at not in self._changed:
                # All changes at once, so that all mistakes in them are told.
                whole = anchored(yamlfile.override(self._document, changes).data, self.base.path.parent)
                self._changed[at] = whole[section]
            settings[section] = self._changed[at]
        return settings

    def _json(self, section: Any) -> str:
        """Plain settings as JSON; neighbouring cases have the same object."""
        known = self._written.get(id(section))
        if known is None:
            known = self._written[id(section)] = section, json.dumps(section)
        return known[1]

    def settled(self, settings: Mapping[str, Any], legal: bool = False) -> Settled:
        """The sections of plain settings. Raises ConfigError.

        ``legal``: those that are right by themselves are known to agree, as those of a case do that has been listed.
        """
        self._forget_if_many()
        written = {key: (key, self._json(value)) for key, value in settings.items() if key not in ("name", "sweep")}
        # A preset depends on the schedule; a runtime that isn't given is the default.
        given = written["runtime"][1] if "runtime" in written else ""
        written["runtime"] = ("runtime", f"{given} {written.get('schedule')}")
        if settings.get("partition") == PIPEDREAM:  # the schedule's replicas follow from all the rest
            written["schedule"] = ("schedule", json.dumps(settings))
        known = {key: self._sections[at] for key, at in written.items() if at in self._sections}
        models = {key: model for key, (model, _) in known.items()}
        if len(known) < len(written):
            self._like = Experiment(**{**settings, **models})
            for key, at in written.items():
                if key not in known:
                    model = models[key] = getattr(self._like, key)
                    known[key] = self._sections[at] = model, section_text(model)
        elif not legal and (wrong := Experiment.wrong({**_UNSET, **models}, self._agreed)):
            raise config_error(wrong)
        return Settled(settings["name"], models, {key: text for key, (_, text) in known.items()})

    def experiment(self, settled: Settled) -> Experiment:
        """The experiment of settings that are settled; any earlier one serves as its model, nothing is validated."""
        parts = {**_UNSET, **settled.models, "name": settled.name}
        return Experiment(**parts) if self._like is None else self._like.model_copy(update=parts)

    def case(self, number: int, changes: Changes) -> Case:
        """A case of the sweep, legal or with the reason why it isn't."""
        settings: dict[str, Any] = {}
        try:
            settings = self.settings(changes)
            return Case(self.settled(settings).id, number, changes, settings, None)
        except PpsimError as error:
            text = json.dumps([SEMANTICS, "not legal", self.base.text, changes], sort_keys=True, default=str)
            return Case(hashlib.sha256(text.encode()).hexdigest(), number, changes, settings, str(error))


def listing(base: Base, sweep: Sweep, ours: Callable[[int], bool] | None = None) -> Iterator[Case]:
    """Every case for which the sweep's conditions hold (and its number is ``ours``), as often as the sweep names it."""
    resolver = Resolver(base)
    names = Names(resolver, sweep)
    for number, changes in chosen(sweep, names.hold):
        if ours is None or ours(number):
            yield resolver.case(number, changes)


class Names:
    """What the names in conditions stand for in a case."""

    def __init__(self, resolver: Resolver, sweep: Sweep) -> None:
        self._resolver = resolver
        self._swept = sweep.swept()

    def hold(self, changes: Changes, conditions: list[Condition]) -> bool:
        """Whether all conditions hold; of what isn't legal, a condition on its stages holds.

        Raises ConfigError for a condition that can't be decided.
        """
        if not conditions:
            return True
        try:
            view = _View(self._resolver, changes, self._path)
        except ConfigError:
            return True
        for condition in conditions:
            try:
                if not condition.holds(view.value):
                    return False
            except ConfigError:
                continue
            except ValueError as error:
                raise ConfigError(f"{self._resolver.base.path}: sweep.where: {error}") from None
        return True

    @lru_cache(maxsize=1000)  # noqa: B019 - one Names for the length of a listing
    def _path(self, name: str) -> str:
        return meant(name, Experiment, self._swept)[0]


class _View:
    """One case's settings, asked by name."""

    def __init__(self, resolver: Resolver, changes: Changes, path_of: Any) -> None:
        self._resolver = resolver
        self._settings = resolver.settings(changes)
        self._path_of = path_of

    @cached_property
    def _experiment(self) -> Experiment:
        return self._resolver.experiment(self._resolver.settled(self._settings))

    def value(self, name: str) -> Any:
        """The value of a setting or of a derived name."""
        if name == "gpus":
            factors = ("pipeline.ranks", "pipeline.data_parallel", "costs.tensor_parallel", "costs.context_parallel")
            parts = (setting(self._settings, key) for key in factors)
            return prod(part if isinstance(part, int) else 0 for part in parts)
        if name in DERIVED:
            placement = self._experiment.placement
            return placement.stages if name == "stages" else max(len(held) for held in placement.stages_of)
        path = self._path_of(name)
        value = setting(self._settings, path)
        # What isn't given may follow from the rest, as the microbatches do from the global batch.
        return getattr(self._experiment.pipeline, path[9:]) if value is None and path.startswith("pipeline.") else value


def setting(settings: Mapping[str, Any], path: str) -> Any:
    """A setting of a case, by default what it is where nobody gives it; None where that isn't one plain value."""
    given, value = keys.value_at(settings, path)
    if given:
        return value
    if path.startswith("schedule."):
        schedule = known().get(str(keys.value_at(settings, "schedule")[1]))
        field = schedule.model_fields.get(path.removeprefix("schedule.")) if schedule else None
        return None if field is None or field.is_required() else field.default
    return keys.default(path, Experiment)

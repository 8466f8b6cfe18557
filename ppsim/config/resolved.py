"""The resolved experiment: every default and every derived number, both forms of each unit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from pydantic import BaseModel

from ppsim.config import yamlfile
from ppsim.config.experiment import Experiment
from ppsim.config.runtime import preset
from ppsim.units import both_forms, parse, show

SEMANTICS = 1
"""Version of the simulation's semantics: a change of meaning changes every config's id."""


_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)
UNSET = _JSON.encode(None)
_CANONICAL = dict.fromkeys(sorted(set(Experiment.model_fields) - {"name", "sweep"}), True)


def settings(experiment: Experiment) -> dict[str, Any]:
    """Every setting with its default, as plain data that ``load`` reads back; what is unset is left out."""
    return _without_nothing(experiment.model_dump(mode="json", fallback=_by_class))  # type: ignore[no-any-return]


def _by_class(value: object) -> str:
    """What a schedule of a user's own may have as a setting and no text could say, such as a function."""
    return f"<{type(value).__qualname__}>"


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        some = {key: item for key, item in value.items() if item is not None}
        nested = {key: _without_nothing(item) for key, item in some.items() if isinstance(item, dict | list)}
        return {**some, **nested}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value


def config_id(experiment: Experiment) -> str:
    """sha256 of the canonical settings but the name, and of the semantics' version."""
    return _hashed(_canonical(experiment.model_dump(mode="json", include=_CANONICAL, fallback=_by_class)))


def id_of(texts: Mapping[str, str]) -> str:
    """``config_id`` of the experiment whose sections have these canonical texts; one that is unset may be missing."""
    return _hashed(
        "{" + ",".join([f'"{key}":{text}' for key in _CANONICAL if (text := texts.get(key, UNSET)) != UNSET]) + "}"
    )


def _hashed(settings: str) -> str:
    return hashlib.sha256(f"[{SEMANTICS},{settings}]".encode()).hexdigest()


def section_text(section: Any) -> str:
    """A section's settings in canonical form: JSON text, keys sorted, what is unset left out."""
    if isinstance(section, BaseModel):  # else a word or a list
        section = section.model_dump(mode="json", fallback=_by_class)
    return _canonical(section)


def _canonical(settings: Any) -> str:
    return _JSON.encode(_without_nothing(settings))


def remarks(experiment: Experiment) -> dict[tuple[str | int, ...], str]:
    """What stands beside a setting: a unit's other form, a preset's reason."""
    found = {
        loc: other
        for loc, value in _leaves(settings(experiment), ())
        if isinstance(value, str) and (other := _other_form(value))
    }
    for key, setting in preset(experiment.runtime.preset, experiment.schedule.name).items():
        if getattr(experiment.runtime, key) == setting.value:
            found["runtime", key] = setting.reason
    return found


def _leaves(value: Any, loc: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*loc, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*loc, index))
    else:
        yield loc, value


def _other_form(text: str) -> str | None:
    for dimension in ("size", "bandwidth"):
        try:
            value = parse(text, dimension)
        except ValueError:
            continue
        forms = both_forms(value, dimension)
        return forms if forms != text and value else None
    return None


def derived(experiment: Experiment) -> dict[str, Any]:
    """The numbers that follow from the settings: stages, what each costs, the links between neighbours."""
    problem = experiment.problem()
    costs, placement, topology = problem.costs, problem.placement, experiment.topology()

    def times(values: tuple[Fraction, ...]) -> Any:
        return _short([show(value, "time") for value in values])

    def sizes(key: str) -> Any:
        given = getattr(experiment.costs, key, True) is not None  # of a model it follows
        return _short([both_forms(value, "size") for value in getattr(costs, key)]) if given else "not given"

    neighbours = []
    for rank in range(problem.ranks - 1):
        route = topology.route(rank, rank + 1)
        neighbours.append(
            f"{show(route.link.bandwidth, 'bandwidth') if route.link.bandwidth else 'no occupancy'}, "
            f"latency {show(route.link.latency, 'time')}" + (f", {route.egress}" if route.egress else "")
        )
    split = experiment.split()
    return {
        "stages": problem.stages,
        **({} if split is None else {"layers_per_stage": split.layers}),
        "placement": placement.name,
        "stages_of_rank": [list(held) for held in placement.stages_of][:64],
        "forward_per_stage": times(costs.forward),
        "backward_per_stage": times(costs.backward),
        "activation_per_stage": sizes("activation"),
        "message_per_microbatch": sizes("message"),
        "weights_per_stage": sizes("weights"),
        "link_to_next_rank": _short(neighbours),
        "ops": operations(experiment),
    }


def operations(experiment: Experiment) -> int:
    """About how many ops a run has: a forward and a backward of every stage and microbatch, of all steps."""
    pipeline = experiment.pipeline
    return 2 * experiment.placement.stages * pipeline.microbatches * pipeline.steps


def _short(values: list[str]) -> Any:
    return values[0] if values and len(set(values)) == 1 else values


def text(experiment: Experiment) -> str:
    """The resolved config as YAML that ``load`` reads back, derived numbers as comments at its end."""
    lines = yamlfile.dump({"derived": derived(experiment)}).splitlines()
    return yamlfile.dump(settings(experiment), remarks(experiment)) + "".join(f"# {line}\n" for line in lines)

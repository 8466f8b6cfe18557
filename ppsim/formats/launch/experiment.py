"""Settings and the time of a layer -> an experiment as YAML text, which says where each value is from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from ppsim.config import yamlfile
from ppsim.config.experiment import Experiment
from ppsim.errors import ConfigError, FormatError, printable
from ppsim.formats._launch import Settings, Sources
from ppsim.units import show

FORWARD = Fraction(1, 1000)
"""Seconds of a layer's forward where none is given; a backward takes twice its forward."""


class Imported(NamedTuple):
    """An experiment as YAML text, and what a user should know beside it."""

    text: str
    notes: list[str]


class Times(NamedTuple):
    """Seconds of a layer's forward and backward; None where not given."""

    forward: Fraction | None = None
    backward: Fraction | None = None

    def whole(self) -> tuple[Fraction, Fraction]:
        """Both, with what is assumed."""
        forward = self.forward
        if forward is None:
            forward = FORWARD if self.backward is None else self.backward / 2
        return forward, 2 * forward if self.backward is None else self.backward


class Machine(NamedTuple):
    """What costs from a model need: a device and its links, rows of the catalog."""

    device: str
    intra_node: str | None = None
    inter_node: str | None = None
    devices_per_node: int | None = None

    def cluster(self, settings: Settings) -> dict[str, Any]:
        """The cluster of a pipeline, with the links that such a device mostly has."""
        inside, outside = next(
            (ls for name, ls in _LINKS.items() if self.device.startswith(name)), ("nvlink3", "ib-hdr")
        )
        per_node = self.devices_per_node or settings.per_node or 8
        return {
            "device": self.device,
            "ranks_per_node": max(1, per_node // (settings.apart or 1)),
            "devices_per_node": per_node,
            "intra_node": self.intra_node or inside,
            "inter_node": self.inter_node or outside,
        }


_LINKS = {
    "v100": ("nvlink2", "ib-edr"), "p100": ("nvlink1", "ib-edr"), "a100": ("nvlink3", "ib-hdr"),
    "h100": ("nvlink4", "ib-ndr"), "h200": ("nvlink4", "ib-ndr"), "b200": ("nvlink5", "ib-ndr"),
    "gb200": ("nvlink5", "ib-ndr"),
}  # fmt: skip
"""Links within and between nodes of such devices."""


def experiment_of(settings: Settings, label: str, times: Times, machine: Machine | None = None) -> Imported:
    """The experiment, with costs given per layer, or from the model on a ``machine``.

    Raises FormatError where it isn't a legal one.
    """
    label = printable(label)
    values: dict[str, Any] = {"schedule": settings.schedule, "pipeline": _pipeline(settings, machine is not None)}
    if machine is None:
        values |= {"costs": _given(settings, *times.whole())}
    else:
        values |= {"costs": _of_model(settings, label), "cluster": machine.cluster(settings)}
        if len(set(settings.layers)) > 1:
            values["partition"] = settings.contents
    values["runtime"] = settings.runtime
    try:
        Experiment(**values)
    except ConfigError as error:
        more = "; the world size isn't in the file: give --world-size" if settings.sizes.world is None else ""
        raise FormatError("\n".join(f"{label}: {line}{more}" for line in str(error).splitlines())) from None
    notes = [*settings.notes, *(_notes(settings, times) if machine is None else _assumed(values, machine))]
    return Imported(_text(settings, label, values, times), notes)


def _of_model(settings: Settings, label: str) -> dict[str, Any]:
    """Costs from the model. Raises FormatError where its sizes aren't all known."""
    wants = {"hidden": "--hidden-size", "heads": "--num-attention-heads", "vocabulary": "--vocab-size"}
    lacking = [name for key, name in wants.items() if key not in settings.model]
    lacking += ["--seq-length"] if "sequence" not in settings.costs else []
    mistakes = [f"{label}: {name} is missing, which costs from the model need" for name in lacking]
    again = settings.recomputed
    if again is not None and tuple(again) != tuple(settings.layers):
        mistakes.append(f"{label}: recomputation of some layers of a stage isn't modelled with costs from the model")
    if mistakes:
        raise FormatError("\n".join(mistakes))
    costs = {"kind": "transformer", "model": dict(settings.model), **settings.costs}
    if settings.selective and list(settings.selective) != ["core_attn"]:
        costs["recompute_modules"] = list(settings.selective)
    return costs


def _assumed(values: Mapping[str, Any], machine: Machine) -> Iterator[str]:
    cluster = values["cluster"]
    yield "times and memory follow from the model and the device, with an assumed efficiency; see `ppsim calibrate`"
    if machine.intra_node is None or machine.inter_node is None:
        yield (
            f"links are assumed: {cluster['intra_node']} within nodes of {cluster['devices_per_node']}, "
            f"{cluster['inter_node']} between them; give --intra-node and --inter-node for others"
        )


def _pipeline(settings: Settings, of_model: bool) -> dict[str, Any]:
    sizes = settings.sizes
    pipeline: dict[str, Any] = {
        "ranks": sizes.ranks,
        "microbatches": sizes.microbatches,
        "micro_batch_size": sizes.micro_batch,
        "global_batch": sizes.global_batch,
        "data_parallel": sizes.data,
    }
    if settings.recomputed is not None:
        pipeline |= {"recompute": "full", "recompute_when": "late"}
    elif settings.selective and of_model:
        pipeline |= {"recompute": "selective", "recompute_when": "late"}
    return pipeline


def _given(settings: Settings, forward: Fraction, backward: Fraction) -> dict[str, Any]:
    """Costs per stage: so many layers of such a time."""

    def each(time: Fraction, counts: Iterable[int] = settings.layers) -> str | list[str]:
        listed = [show(count * time, "time") for count in counts]
        return listed[0] if len(set(listed)) == 1 else listed

    costs: dict[str, Any] = {"kind": "given", "per": "stage", "forward": each(forward)}
    if settings.halves:
        costs |= {"input_grad": each(backward / 2), "weight_grad": each(backward / 2)}
    else:
        costs["backward"] = each(backward)
    if settings.recomputed is not None and tuple(settings.recomputed) != tuple(settings.layers):
        costs["recompute"] = each(forward, settings.recomputed)
    if settings.message is not None:
        costs["message"] = dict(settings.message)
    return costs


def _text(settings: Settings, label: str, values: Mapping[str, Any], times: Times) -> str:
    forward, backward = (f"{show(time, 'time')} per layer" for time in times.whole())
    half = f"half of {backward}"
    sources: Sources = {
        ("costs", "forward"): forward,
        ("costs", "backward"): backward,
        ("costs", "input_grad"): half,
        ("costs", "weight_grad"): half,
        **settings.sources,
    }
    body = yamlfile.dump(dict(values), {at: text for at, text in sources.items() if _is_value(values, at)})
    head = [f"From {label}, by `ppsim import {settings.launcher}`.", *settings.head]
    return _commented(head) + body + ("" if "cluster" in values else _commented(_cluster_hint(settings)))


def _commented(lines: Iterable[str]) -> str:
    return "".join(f"# {line}\n" for line in lines)


def _is_value(values: Mapping[str, Any], place: tuple[str | int, ...]) -> bool:
    """Whether a value, not a mapping, stands there."""
    value: Any = values
    for key in place:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value is not None and not isinstance(value, Mapping)


def _cluster_hint(settings: Settings) -> Iterator[str]:
    """How the pipeline's ranks would sit on nodes, as a line that can be taken as it is."""
    yield "Without a cluster links are free and memory has no limit."
    if settings.apart is None:
        return
    together = max(1, (settings.per_node or settings.apart) // settings.apart)
    links = "intra_node: nvlink3, inter_node: ib-hdr" if together > 1 else "inter_node: ib-hdr"
    yield f"The pipeline's neighbours are {settings.apart} GPUs apart, so with nodes of 8 or so a cluster may be:"
    yield f"cluster: {{device: a100-80gb, ranks_per_node: {together}, {links}}}"


def _notes(settings: Settings, times: Times) -> Iterator[str]:
    if settings.selective:
        yield (
            "selective recomputation has no key of its own: measure the backward with it, its time is part of that "
            "(with --device it is counted)"
        )
    if settings.model:
        yield (
            "embedding, head and what differs between layers are not counted: costs are given per layer "
            f"({', '.join(settings.model)} are used with --device)"
        )
    yield (
        "memory isn't derived from a launch file: give costs.activation, weights and optimizer_state; without weights "
        "the sum of gradients takes no time"
    )
    if times.forward is None and times.backward is None:
        yield (
            "times are relative: {} and {} per layer are assumed; give measured ones by --layer-forward and "
            "--layer-backward".format(*(show(time, "time") for time in times.whole()))
        )

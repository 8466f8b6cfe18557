"""Terms -> layers: what a layer's terms cost together on one device."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ppsim.costs.layers import Layer, LayerCosts
from ppsim.costs.transformer import count, memory
from ppsim.costs.transformer.efficiency import Machine
from ppsim.costs.transformer.memory import Held
from ppsim.costs.transformer.sizes import Sizes
from ppsim.costs.transformer.terms import Exchange, Term, Work, kept_bytes

ZERO = Fraction(0)
WHOLE = frozenset({"layer"})
"""A whole layer is recomputed: only its input is kept."""


@dataclass(frozen=True)
class Device:
    """One device's share of a model, what it runs on and how its parameters are held."""

    sizes: Sizes
    machine: Machine
    held: Held
    workspace: Fraction = ZERO
    data_parallel: int = 1


def layer_costs(device: Device, recomputed: frozenset[str] = frozenset()) -> LayerCosts:
    """What every layer costs; ``recomputed``: modules by name, or WHOLE. Those of the latest devices are kept."""
    for known, modules, costs in _LATEST:
        if modules == recomputed and known == device:
            return costs
    costs = _layer_costs(device, recomputed)
    _LATEST.appendleft((device, recomputed, costs))
    return costs


_LATEST: deque[tuple[Device, frozenset[str], LayerCosts]] = deque(maxlen=16)
"""What neighbouring cases of a sweep share, which seldom vary all that a layer's costs follow from."""


def _layer_costs(device: Device, recomputed: frozenset[str]) -> LayerCosts:
    made: dict[str, Layer] = {}
    rows = []
    for kind, terms in count.layers(device.sizes):
        if kind not in made:
            made[kind] = _layer(kind, terms, device, recomputed)
        rows.append(made[kind])
    return LayerCosts(tuple(rows))


def _layer(kind: str, terms: Sequence[Term], device: Device, recomputed: frozenset[str]) -> Layer:
    sizes, machine, held = device.sizes, device.machine, device.held
    end = kind in ("embedding", "head")
    fixed = ZERO if end else machine.efficiency.per_layer / 3
    activation = kept_bytes(terms)
    again, kept = _recomputed(terms, device, frozenset() if end else recomputed)
    sync, optimizer = _sync(terms, device)
    gather_forward, gather_backward, scatter = (machine.seconds(work) for work in _sharded_work(terms, held))
    handed_on = _seconds(terms, "input_grad", machine) + fixed + gather_backward
    return Layer(
        name=kind,
        forward=_seconds(terms, "forward", machine) + fixed + gather_forward,
        input_grad=ZERO if kind == "embedding" else handed_on,
        weight_grad=_seconds(terms, "weight_grad", machine) + fixed + scatter,
        recompute=again,
        activation=activation,
        held_for_weight_grad=min(activation, _held_for_weights(terms)),
        kept=kept,
        message=ZERO if kind == "head" else sizes.hidden_part,
        weights=held.weights(terms),
        gradients=held.gradients(terms),
        optimizer_state=held.optimizer(terms),
        optimizer=machine.moving(held.updated(terms)) + optimizer,
        synced=sync,
        transient_forward=_transient_forward(kind, sizes),
        transient_backward=_transient_backward(kind, sizes) + _gathered_weights(terms, held),
        buffers=memory.buffers(terms, sizes, device.workspace),
        tied=_tied(kind, terms, sizes),
        parameters=int(sum((term.all_parameters for term in terms), ZERO)),
        flops=sum((term.forward.model_flops for term in terms), ZERO),
    )


def _seconds(terms: Sequence[Term], which: str, machine: Machine) -> Fraction:
    return sum((machine.seconds(getattr(term, which)) for term in terms), ZERO)


def _recomputed(terms: Sequence[Term], device: Device, recomputed: frozenset[str]) -> tuple[Fraction, Fraction]:
    """(seconds of running again, bytes kept) where those modules, or the whole layer, are recomputed."""
    if recomputed == WHOLE:
        again = _seconds(terms, "forward", device.machine) + device.machine.efficiency.per_layer / 3
        return again, device.sizes.hidden_part
    parts = [term for term in terms if recomputed.intersection(term.module)]
    return _seconds(parts, "forward", device.machine), kept_bytes(terms, recomputed)


def _held_for_weights(terms: Sequence[Term]) -> Fraction:
    """Inputs of products with weights, and their outputs' gradients; 32 sbh of a GPT layer.

    Source: Zero Bubble, arXiv 2401.10241, table 1.
    """
    return sum((term.held + sum(k.size for k in term.kept if k.for_weights) for term in terms), ZERO)


def _sync(terms: Sequence[Term], device: Device) -> tuple[Fraction, Fraction]:
    """What gradient sync is to a ring of the data parallel replicas, and its seconds where there are none of these.

    The pipeline's sync sends 2(d-1)/d of this to the next of d replicas; the group may be larger (context parallel
    devices hold the same weights), or smaller (experts).
    """
    sent, d = device.held.synced(terms), device.data_parallel
    if d > 1:
        return sent * d / (2 * (d - 1)), ZERO
    n = device.machine.members["data"]
    whole = sent * n / (n - 1) if n > 1 else ZERO
    return ZERO, device.machine.collective(Exchange("reduce_scatter", "data", whole)) if n > 1 else ZERO


def _sharded_work(terms: Sequence[Term], held: Held) -> tuple[Work, Work, Work]:
    """Collectives in F, I and W where gradients or weights themselves are sharded."""
    if held.sharding not in ("gradients", "weights"):
        return Work(), Work(), Work()
    count_ = sum((term.all_parameters for term in terms), ZERO)
    scatter = Work(exchanges=(Exchange("reduce_scatter", "data", count_ * held.gradient),))
    gather = Work(exchanges=(Exchange("all_gather", "data", count_ * held.weight),))
    return (gather, gather, scatter) if held.sharding == "weights" else (Work(), Work(), scatter)


def _gathered_weights(terms: Sequence[Term], held: Held) -> Fraction:
    """A layer's whole weights and gradients, while it runs, where they are sharded."""
    whole = sum((term.all_parameters for term in terms), ZERO)
    return whole * {"weights": held.weight + held.gradient, "gradients": held.gradient}.get(held.sharding, 0)


def _transient_forward(kind: str, sizes: Sizes) -> Fraction:
    if kind == "head":
        return memory.in_head_forward(sizes)
    return memory.in_expert_forward(sizes) if _of_experts(kind, sizes) else ZERO


def _transient_backward(kind: str, sizes: Sizes) -> Fraction:
    if kind == "head":
        return memory.in_head_backward(sizes)
    if kind == "embedding":
        return memory.in_embedding_backward(sizes)
    return memory.in_layer_backward(sizes, _of_experts(kind, sizes))


def _of_experts(kind: str, sizes: Sizes) -> bool:
    return kind == "expert layer" or (kind == "mtp" and sizes.model.experts is not None)


def _tied(kind: str, terms: Sequence[Term], sizes: Sizes) -> Fraction:
    """The share of the head's parameters that are the embedding's."""
    if kind != "head" or not sizes.model.tied:
        return ZERO
    mine = sum((term.all_parameters for term in terms), ZERO)
    return Fraction(sizes.vocabulary * sizes.model.hidden) / mine

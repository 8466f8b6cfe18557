"""Layers: what each layer of a model costs, and the costs of the stages that they are shared out to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise

from ppsim._latest import Latest
from ppsim.costs.base import StageCosts, Values

ZERO = Fraction(0)
KEPT = 64


@dataclass(frozen=True)
class Layer:
    """What one layer costs on one device per microbatch: seconds and bytes, all exact.

    A model's embedding and its head (final norm, output projection and loss) are layers, too.
    """

    name: str
    """What it is, as in the report: 'embedding', 'decoder', 'head', …; equal layers share a name."""
    forward: Fraction
    """Seconds of its forward."""
    input_grad: Fraction
    """Seconds of the backward's half that hands on a gradient."""
    weight_grad: Fraction
    """Seconds of the backward's half that makes the weights' gradients."""
    recompute: Fraction = ZERO
    """Seconds of running again what isn't kept, where the stage is recomputed."""
    activation: Fraction = ZERO
    """Bytes that its forward leaves to its backward."""
    held_for_weight_grad: Fraction = ZERO
    """Bytes that the input-gradient half leaves to the weight-gradient half, with the incoming gradient."""
    kept: Fraction = ZERO
    """Bytes of the activation that stay where the stage is recomputed."""
    message: Fraction = ZERO
    """Bytes of its output, which a stage that ends here sends; as large again is the gradient that comes back."""
    weights: Fraction = ZERO
    gradients: Fraction = ZERO
    optimizer_state: Fraction = ZERO
    optimizer: Fraction = ZERO
    """Seconds of its part of the optimizer step."""
    synced: Fraction | None = None
    """Bytes that gradient sync sums (default: the gradients)."""
    transient_forward: Fraction = ZERO
    """The most bytes that its forward needs beside what it keeps."""
    transient_backward: Fraction = ZERO
    """The most bytes that its backward needs beside its activation."""
    buffers: tuple[tuple[str, Fraction], ...] = ()
    """Bytes held throughout by name; a stage holds one of each name, however many of its layers use it."""
    tied: Fraction = ZERO
    """Share of its weights, gradients and optimizer state that it has from the model's first layer, on one stage."""
    parameters: int = 0
    """Parameters on this device."""
    flops: Fraction = ZERO
    """Floating-point operations of its forward on this device, per microbatch, that a model needs (for MFU)."""


@dataclass(frozen=True)
class LayerCosts:
    """The layers of a model in the order in which it runs them, the embedding first and the head last."""

    layers: tuple[Layer, ...]
    _made: Latest[StageCosts] = field(default_factory=lambda: Latest(KEPT), init=False, repr=False, compare=False)
    """Costs of the stages that were asked for."""

    def __len__(self) -> int:
        return len(self.layers)

    def stage_costs(self, split: Sequence[int], stages_of: Sequence[Sequence[int]] = ()) -> StageCosts:
        """The costs of stages that hold so many consecutive layers each; the counts add up to all layers.

        ``stages_of[rank]``: the stages on one device, which share its buffers (default: every stage has its own).
        Raises ValueError where the counts don't add up. An empty stage costs nothing and passes its input on.
        """
        return self._made.of((tuple(split), tuple(map(tuple, stages_of))), lambda: self._stage_costs(split, stages_of))

    def _stage_costs(self, split: Sequence[int], stages_of: Sequence[Sequence[int]]) -> StageCosts:
        if sum(split) != len(self.layers) or min(split, default=0) < 0:
            raise ValueError(f"a split into {list(split)} is not one of {len(self.layers)} layers")
        stages = [self.layers[begin:end] for begin, end in pairwise((0, *accumulate(split)))]

        def total(key: str) -> Values:
            return tuple(sum((getattr(layer, key) for layer in held), ZERO) for held in stages)

        input_grad, weight_grad, kept = total("input_grad"), total("weight_grad"), total("kept")
        gradients = [_held(held, "gradients", self.layers[0]) for held in stages]
        for sharing in stages_of or [[stage] for stage in range(len(stages))]:
            gradients[sharing[0]] += _buffers(layer for stage in sharing for layer in stages[stage])
        return StageCosts(
            forward=total("forward"),
            backward=tuple(i + w for i, w in zip(input_grad, weight_grad, strict=True)),
            input_grad=input_grad,
            weight_grad=weight_grad,
            recompute=total("recompute"),
            activation=total("activation"),
            held_for_weight_grad=total("held_for_weight_grad"),
            rebuilt=tuple(k + _largest_rest(held) for k, held in zip(kept, stages, strict=True)),
            flops=total("flops"),
            stage_input=kept,
            message=tuple(_messages(stages)),
            weights=tuple(_held(held, "weights", self.layers[0]) for held in stages),
            gradients=tuple(gradients),
            synced=tuple(_synced(held, self.layers[0]) for held in stages),
            optimizer_state=tuple(_held(held, "optimizer_state", self.layers[0]) for held in stages),
            optimizer=total("optimizer"),
            transient_forward=tuple(transient(held, "transient_forward") for held in stages),
            transient_backward=tuple(transient(held, "transient_backward") for held in stages),
        )


def _messages(stages: Sequence[Sequence[Layer]]) -> Iterator[Fraction]:
    """What each stage sends on."""
    last = ZERO
    for held in stages:
        last = held[-1].message if held else last
        yield last


def _held(held: Sequence[Layer], key: str, first: Layer) -> Fraction:
    """Bytes of weights, gradients or optimizer state; of tied layers on the first layer's stage they are there once."""
    whole = bool(held) and held[0] is first
    return sum((getattr(layer, key) * (1 - layer.tied if whole else 1) for layer in held), ZERO)


def _synced(held: Sequence[Layer], first: Layer) -> Fraction:
    """Bytes that gradient sync sums; tied weights' gradients once."""
    whole = bool(held) and held[0] is first
    each = ((layer, layer.gradients if layer.synced is None else layer.synced) for layer in held)
    return sum((size * (1 - layer.tied if whole else 1) for layer, size in each), ZERO)


def _largest_rest(held: Sequence[Layer]) -> Fraction:
    """The most that a single layer doesn't keep where it is recomputed."""
    return max((layer.activation - layer.kept for layer in held), default=ZERO)


def _buffers(layers: Iterable[Layer]) -> Fraction:
    """Bytes of the buffers, one of each name."""
    return sum({name: size for layer in layers for name, size in layer.buffers}.values(), ZERO)


def transient(held: Sequence[Layer], key: str) -> Fraction:
    """The most bytes that an op of these layers needs beside its stage's activation.

    While a layer runs, what later layers keep isn't there: not yet in the forward, no more in the backward.
    """
    later, most = ZERO, ZERO
    for layer in reversed(held):
        most = max(most, getattr(layer, key) - later)
        later += layer.activation
    return most

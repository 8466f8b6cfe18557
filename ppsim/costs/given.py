"""Costs that are given: measured or assumed times and sizes, per rank, per stage or for the whole model."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from fractions import Fraction
from operator import add
from typing import Literal

from pydantic import Field

from ppsim._model import Model, OneOrMore, Whole
from ppsim.costs.base import StageCosts, Values, each, times
from ppsim.costs.message import Message
from ppsim.costs.setting import Setting
from ppsim.units import Size, Time, show

ZERO, ONE = Fraction(0), Fraction(1)
NOTHING: Values = ()


def without_memory(given: Collection[str]) -> list[str]:
    """What takes memory in every training and isn't among the settings that are given, in words."""
    words = {"activation": "activations", "weights": "weights"}
    return [text for name, text in words.items() if name not in given]


class GivenCosts(Model):
    """What the ops of a stage cost, as given.

    ``per: rank`` (default): a value is for a p-th of the model, so a stage costs value · ranks / stages.
    ``per: model``: for the whole model. ``per: stage``: as given. Lists hold a value per rank or per stage.
    ``message``, ``stage_input`` and what is transient are never scaled by this.
    """

    kind: Literal["given"] = "given"
    per: Literal["rank", "model", "stage"] = "rank"
    """What a value stands for: a p-th of the model, the whole model, or one stage."""
    forward: OneOrMore[Time]
    """Time of a forward."""
    backward: OneOrMore[Time] | None = None
    """Time of a full backward; or give its halves, ``input_grad`` and ``weight_grad``."""
    input_grad: OneOrMore[Time] | None = None
    """Time of the backward's input-gradient half (I)."""
    weight_grad: OneOrMore[Time] | None = None
    """Time of the backward's weight-gradient half (W)."""
    recompute: OneOrMore[Time] | None = None
    """Time of recomputing a stage's forward (default: as the forward)."""
    overlapped: OneOrMore[Time] | None = None
    """Time of a fused pair of one forward and one backward (default: their sum)."""
    pair: Literal["atomic", "serial"] = "atomic"
    """A fused pair hands on both outputs at its end (atomic), or is its forward, then its backward (serial)."""
    optimizer: OneOrMore[Time] = Fraction(0)
    """Time of the optimizer step."""
    activation: OneOrMore[Size] | None = None
    """What a forward keeps for its backward, per microbatch (default: not known; memory is counted without it)."""
    held_for_weight_grad: OneOrMore[Size] | None = None
    """What the input-gradient half leaves to the weight-gradient half, with its incoming gradient (default: the whole
    activation; it may be more)."""
    stage_input: OneOrMore[Size] | None = None
    """What a recomputed forward keeps (default: its incoming message, never more than the activation)."""
    message: OneOrMore[Message] = Fraction(0)
    """What a stage sends to the next, per microbatch: a size, or a shape. As large again comes back as its gradient."""
    weights: OneOrMore[Size] | None = None
    """The weights (default: not known; memory is counted without them)."""
    gradients: OneOrMore[Size] | None = None
    """The gradient buffers (default: as much as the weights)."""
    optimizer_state: OneOrMore[Size] = Fraction(0)
    """What the optimizer keeps."""
    transient_forward: OneOrMore[Size] = Fraction(0)
    """What a forward needs beside what it keeps, while it runs; never scaled by ``per``."""
    transient_backward: OneOrMore[Size] = Fraction(0)
    """What a backward, or a half of it, needs beside the activation, while it runs; never scaled by ``per``."""
    micro_batch_size: Whole | None = Field(None, ge=1)
    """The micro-batch size at which these costs were measured; another one scales times, activation and messages."""

    @property
    def unknown_memory(self) -> list[str]:
        """What takes memory in every training and isn't known, in words."""
        return without_memory([name for name in ("activation", "weights") if getattr(self, name) is not None])

    def _lists(self) -> Iterator[tuple[str, list[Fraction]]]:
        return ((key, value) for key, value in vars(self).items() if isinstance(value, list))

    def problems(self, setting: Setting) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) with these costs on these stages."""
        found = list(self._lengths(setting))
        yield from found
        yield from self._selective(setting)
        if not found:
            yield from self._contradictions(setting)

    def _selective(self, setting: Setting) -> Iterator[tuple[str, str]]:
        if "selective" in setting.recompute:
            for key, what in (("recompute", "how long it takes"), ("stage_input", "what is kept")):
                if getattr(self, key) is None:
                    yield key, f"missing; 'pipeline.recompute: selective' needs {what}, which costs from a model know"

    def _lengths(self, setting: Setting) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) with these costs on these stages; where nothing is learnt, no backward is due."""
        placement, trains = setting.placement, setting.trains
        p, stages = placement.ranks, placement.stages
        per_rank = self.per == "rank" and all(len(ranks) == 1 for ranks in placement.ranks_of)
        replicated = placement.replicated and placement.name != "bidirectional"
        for key, values in self._lists():
            if key == "message" and self.per != "rank":
                expected, what = stages, "stages (what each sends; the last one's is not used)"
            elif self.per == "model" or (self.per == "rank" and replicated):
                reason = "per: model" if self.per == "model" else "replicated stages"
                yield key, f"a list can't be shared out with {reason}; use 'per: stage' with {stages} values"
                continue
            elif per_rank:
                expected, what = p, "ranks"
            else:
                expected, what = stages, "stages"
            if len(values) != expected:
                yield key, f"the list has {len(values)} values, there are {expected} {what}"
        if self.backward is None:
            neither = self.input_grad is None and self.weight_grad is None
            for key in () if neither and not trains else ("input_grad", "weight_grad"):
                if getattr(self, key) is None:
                    other = "weight_grad" if key == "input_grad" else "input_grad"
                    hint = (
                        f"'{other}' is given, so '{key}' is needed, too"
                        if getattr(self, other) is not None
                        else ("missing; write 'backward: 20 ms', or its halves input_grad: and weight_grad:")
                    )
                    yield (key if getattr(self, other) is not None else "backward"), hint
                    if getattr(self, other) is None:
                        break
        elif (self.input_grad is None) != (self.weight_grad is None):
            key = "weight_grad" if self.weight_grad is None else "input_grad"
            yield key, "missing; a backward's two halves are given together, or neither"

    def _contradictions(self, setting: Setting) -> Iterator[tuple[str, str]]:
        """Values that contradict each other, once they are per stage."""
        costs = self.stage_costs(setting) if self.stage_input is not None else None
        for stage in range(costs.stages if costs is not None else 0):
            if costs is not None and costs.stage_input[stage] > costs.activation[stage]:
                yield (
                    "stage_input",
                    f"{show(costs.stage_input[stage], 'size')} on stage {stage} is more than its activation, "
                    f"{show(costs.activation[stage], 'size')}; recomputation would keep more than it saves",
                )
                break
        if self.backward is not None and self.input_grad is not None:
            given = [_listed(getattr(self, key)) for key in ("backward", "input_grad", "weight_grad")]
            length = max(map(len, given))
            for value, i, w in zip(*(v * length if len(v) == 1 else v for v in given), strict=True):
                if value != i + w:
                    yield (
                        "backward",
                        f"{show(value, 'time')} is not input_grad + weight_grad = {show(i + w, 'time')}; "
                        "leave 'backward' out, it is their sum",
                    )
                    break

    def scale(self, setting: Setting) -> Fraction:
        """The micro-batch size over the one at which the costs were measured."""
        size, measured = setting.micro_batch, self.micro_batch_size
        return Fraction(size, measured) if size is not None and measured is not None else ONE

    def depends_on(self, setting: Setting) -> tuple[Hashable, ...]:
        """All of a setting that ``stage_costs`` depends on."""
        return setting.placement, setting.split, setting.micro_batch, setting.parts

    def stage_costs(self, setting: Setting) -> StageCosts:
        """Costs per stage, of a slice of a microbatch where these are cut."""
        scale, spread = self.scale(setting) / setting.parts, _Shares(self.per, setting).spread
        forward = spread(self.forward, scale)
        given = spread(self.backward, scale)
        halves_assumed = self.input_grad is None
        half = each(lambda value: value / 2, given)
        input_grad = spread(self.input_grad, scale, half)
        weight_grad = spread(self.weight_grad, scale, half)
        activation = spread(self.activation, scale)
        message = spread(self.message, scale, shared=False)  # type: ignore[arg-type]  # its shapes are sizes by now
        incoming = (message[0], *message[:-1])
        weights = spread(self.weights)
        return StageCosts(
            forward=forward,
            backward=each(add, input_grad, weight_grad),
            input_grad=input_grad,
            weight_grad=weight_grad,
            recompute=spread(self.recompute, scale, forward),
            activation=activation,
            held_for_weight_grad=spread(self.held_for_weight_grad, scale, activation),
            stage_input=spread(self.stage_input, scale, each(min, activation, incoming), shared=False),
            message=message,
            weights=weights,
            gradients=spread(self.gradients, ONE, weights),
            optimizer_state=spread(self.optimizer_state),
            optimizer=spread(self.optimizer),
            transient_forward=spread(self.transient_forward, scale),
            transient_backward=spread(self.transient_backward, scale),
            overlapped=None if self.overlapped is None else spread(self.overlapped, scale),
            atomic_pairs=self.pair == "atomic",
            halves_assumed=halves_assumed,
        )


class _Shares:
    """What of a given value each stage costs."""

    def __init__(self, per: Literal["rank", "model", "stage"], setting: Setting) -> None:
        placement = self._placement = setting.placement
        layers = self._layers = setting.split or (1,) * placement.stages
        self._by_rank = per == "rank" and all(len(ranks) == 1 for ranks in placement.ranks_of)
        whole, total = placement.ranks if per == "rank" else 1, sum(layers)
        shares = {held: ONE if per == "stage" else Fraction(whole * held, total) for held in set(layers)}
        self._share = tuple(shares[held] for held in layers)
        self._nothing = (ZERO,) * placement.stages

    def _of_its_rank(self, stage: int, rank: int) -> Fraction:
        return Fraction(self._layers[stage], sum(self._layers[s] for s in self._placement.stages_of[rank]))

    def spread(
        self,
        value: Fraction | list[Fraction] | None,
        factor: Fraction = ONE,
        default: Values = NOTHING,
        *,
        shared: bool = True,
    ) -> Values:
        """A value, or one per rank or stage, times a factor for each stage; None: the default, else nothing."""
        if not value:
            return self._nothing if value is not None else default or self._nothing
        share = self._share
        if not isinstance(value, list):
            values: Values = (value,) * len(share)
        elif self._by_rank:
            rank_of = [ranks[0] for ranks in self._placement.ranks_of]
            values = tuple(value[rank] for rank in rank_of)
            share = tuple(self._of_its_rank(stage, rank) for stage, rank in enumerate(rank_of))
        else:
            values = tuple(value)
        scaled = values if factor == 1 else each(lambda one: one * factor, values)
        return each(times, scaled, share) if shared else scaled


def _listed(value: Fraction | list[Fraction]) -> list[Fraction]:
    return value if isinstance(value, list) else [value]

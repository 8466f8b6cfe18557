"""``partition``: how a model's layers are shared out to the stages of this schedule, on these devices and links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from ppsim._latest import Latest
from ppsim.config.mistakes import Mistake
from ppsim.config.pipeline import Pipeline
from ppsim.config.planning import plan, profile_of, replicas_for
from ppsim.costs import AnyCosts, GivenCosts, Setting, TransformerCosts
from ppsim.costs.layers import Layer, LayerCosts
from ppsim.costs.partition import pipedream
from ppsim.costs.partition.balanced import Balanced, balanced
from ppsim.costs.partition.field import BALANCED, PIPEDREAM, UNIFORM
from ppsim.costs.partition.layout import SplitError, nearly_equal
from ppsim.costs.partition.memory import Room, fullest
from ppsim.costs.partition.pace import step_ns
from ppsim.costs.partition.question import Hop, Question
from ppsim.costs.partition.rows import Rows, laid_out, largest_v, listed, uneven, uniform
from ppsim.costs.setting import FREE_CLUSTER, Recompute
from ppsim.errors import PpsimError
from ppsim.hardware.cluster import Cluster, Topology
from ppsim.ops import Orders
from ppsim.ops.placement import Placement
from ppsim.schedules import Problem, Schedule
from ppsim.schedules.pipedream import PipeDream
from ppsim.units import to_ns

MOST_OPS, MOST_TRIED = 2_000_000, 20_000
"""Orders with more than so many ops aren't looked through for what is alive at once: memory caps no split
then. With more than the second number, an even split isn't tried beside the balanced one."""
ZERO = Fraction(0)
Rule = str | Sequence[int] | None


class Split(NamedTuple):
    """Rows of the model per stage, and how they came about."""

    counts: tuple[int, ...]
    rows: Rows
    found: Balanced | None = None
    plan: pipedream.Plan | None = None

    @property
    def layers(self) -> list[int]:
        """Layers per stage, without embedding and head."""
        return self.rows.layers_of(self.counts)


@dataclass(frozen=True)
class Parts:
    """What a split depends on, beside its rule."""

    costs: AnyCosts
    schedule: Schedule
    pipeline: Pipeline
    topology: Topology
    setting: Setting
    """Of these, without a split."""

    @property
    def layers(self) -> LayerCosts:
        """What every layer costs; of given costs, equal ones."""
        if isinstance(self.costs, GivenCosts):
            alike = Layer("layer", forward=Fraction(1), input_grad=Fraction(1), weight_grad=Fraction(1))
            return LayerCosts((alike,) * (self.pipeline.layers or 0))
        modes = set(self.setting.recompute)
        return self.costs.layer_costs(self.setting, modes.pop() if len(modes) == 1 else "none")

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return self.setting.placement.stages


def default_rule(costs: AnyCosts) -> str:
    """What holds where no rule is given: measured layers differ, those of a model are alike."""
    return BALANCED if costs.kind == "profile" else UNIFORM


def split(rule: Rule, parts: Parts) -> Split | None:
    """The rows of every stage; None where costs are given for stages and nothing says how many layers these have.

    Raises SplitError for a rule that can't be followed.
    """
    if _stands_alone(rule, parts.costs, parts.pipeline):
        return None
    key = (*(id(part) for part in (parts.costs, parts.schedule, parts.pipeline, parts.setting.cluster)), str(rule))
    return _KNOWN.of(key, lambda: (_split(rule, parts), parts))[0]


_KNOWN: Latest[tuple[Split, Parts]] = Latest(64)
"""Splits by what they were asked for."""


def _stands_alone(rule: Rule, costs: AnyCosts, pipeline: Pipeline) -> bool:
    """Whether costs are given for stages and there is nothing to share out."""
    return pipeline.layers is None and rule in (None, UNIFORM) and isinstance(costs, GivenCosts)


def with_split(rule: Rule, parts: Parts) -> Setting:
    """What costs depend on, the split among it. Raises SplitError for a rule that can't be followed."""
    found = split(rule, parts)
    return parts.setting if found is None else replace(parts.setting, split=found.counts)


def _split(rule: Rule, parts: Parts) -> Split:
    if isinstance(parts.costs, GivenCosts) and parts.pipeline.layers is None:
        raise SplitError(
            "shares out a model's layers, and costs of kind given have none: give pipeline.layers, or costs of "
            "kind transformer or profile"
        )
    layers = parts.layers
    rows = Rows.of(layers)
    rule = default_rule(parts.costs) if rule is None else rule
    if not isinstance(rule, str):
        return Split(listed(rows, rule, parts.stages), rows)
    if rule == UNIFORM:
        return Split(uniform(rows, parts.stages), rows)
    if rule == BALANCED:
        found = _balanced(layers, rows, parts)
        return Split(found.split, rows, found)
    if rule == PIPEDREAM:
        found_plan = plan(layers, parts.schedule, parts.topology)
        return Split(found_plan.split, rows, plan=found_plan)
    return Split(laid_out(rows, rule, parts.pipeline.ranks, parts.stages), rows)


def _balanced(layers: LayerCosts, rows: Rows, parts: Parts) -> Balanced:
    """By time of a forward and a backward, within the devices' memory; prediction layers stay together."""
    if rows.total < parts.stages:
        raise SplitError(uneven(rows.layers, parts.stages))
    sizes = _together(rows)
    begins = [0, *accumulate(sizes)]
    again = any(mode != "none" for mode in parts.setting.recompute)
    each = [_seconds(layer, parts.schedule.trains, again) for layer in layers.layers]
    times = [sum(each[a:b], ZERO) for a, b in pairwise(begins)]
    orders = _orders(rows, parts)
    room = _room(orders, parts)
    excess = None if room is None else lambda rank, spans: room(rank, [span.over(begins) for span in spans])
    placement = parts.setting.placement
    speeds = [parts.topology.speed(rank) for rank in range(placement.ranks)]
    if isinstance(parts.schedule, PipeDream):  # a stage's ranks take minibatches in turn
        speeds = [
            speed * len(placement.ranks_of[held[0]]) for speed, held in zip(speeds, placement.stages_of, strict=True)
        ]
    messages = [layers.layers[end - 1].message for end in begins[1:]]
    hops = _hops(placement, parts.topology)
    question = Question(times, placement.stages_of, excess, speeds, messages, hops, room is not None and room.hopeless)
    found = balanced(question)
    ends = [0, *accumulate(found.split)]
    found = found._replace(split=tuple(begins[b] - begins[a] for a, b in pairwise(ends)))
    return _unless_even_is_faster(found, question, rows, orders, parts)


def _hops(placement: Placement, topology: Topology) -> list[Hop]:
    """How long a port is taken from each stage to the next; none where all links are free."""
    hops = []
    for mine, its in pairwise(placement.ranks_of):
        link = topology.link(mine[0], its[0])
        per_byte = ZERO if link.bandwidth is None else 1 / link.bandwidth
        hops.append(Hop(ZERO, ZERO) if mine[0] == its[0] else Hop(link.overhead + link.latency, per_byte))
    return hops if any(hop.fixed or hop.per_byte for hop in hops) else []


def _together(rows: Rows) -> list[int]:
    """Rows that can't be parted: one each, all prediction layers as one."""
    return [1] * (rows.embedding + rows.layers) + [rows.extra] * bool(rows.extra) + [1] * rows.head


def _seconds(layer: Layer, trains: bool, again: bool) -> Fraction:
    backward = layer.input_grad + layer.weight_grad if trains else ZERO
    return layer.forward + backward + (layer.recompute if again and trains else 0)


def _orders(rows: Rows, parts: Parts) -> Orders | None:
    """The schedule's order for an even split; None where it is too long to look through, or there is none."""
    pipeline, setting, slices = parts.pipeline, parts.setting, parts.schedule.cut()
    if parts.schedule.asynchronous or 2 * parts.stages * pipeline.microbatches > MOST_OPS:
        return None
    even = rows.with_ends(nearly_equal(rows.layers, parts.stages))
    try:
        return parts.schedule.orders(
            Problem(
                ranks=pipeline.ranks,
                microbatches=pipeline.microbatches * len(slices),
                placement=setting.placement,
                costs=parts.costs.stage_costs(replace(setting, split=even)),
                slices=slices,
            )
        )
    except PpsimError:
        return None


def _room(orders: Orders | None, parts: Parts) -> Room | None:
    """What the devices' memory allows; None where it isn't known, or no order tells what is alive at once."""
    setting, capacity = parts.setting, parts.setting.cluster.device.memory
    if capacity is None or orders is None or isinstance(parts.costs, GivenCosts):
        return None
    none: Recompute = "none"
    modes = setting.recompute or (none,) * parts.stages
    by_mode = {mode: parts.costs.layer_costs(setting, mode) for mode in dict.fromkeys(modes)}
    return Room(
        capacity=capacity,
        layers=[by_mode[mode] for mode in modes],
        recomputed=[mode != "none" for mode in modes],
        stages_of=setting.placement.stages_of,
        instants=fullest(orders, setting.placement),
        layer_by_layer=setting.layer_by_layer,
    )


def _unless_even_is_faster(
    found: Balanced, question: Question, rows: Rows, orders: Orders | None, parts: Parts
) -> Balanced:
    """The balanced split, in rows; or the even one, where the order makes that faster, as with few microbatches."""
    if rows.layers % parts.stages or orders is None or len(orders) > MOST_TRIED:
        return found
    even = uniform(rows, parts.stages)

    def step(split: tuple[int, ...]) -> int:
        costs = parts.costs.stage_costs(replace(parts.setting, split=split))
        sizes = costs.message
        hops = [to_ns(hop.fixed + size * hop.per_byte) for hop, size in zip(question.hops, sizes, strict=False)]
        return step_ns(orders, costs, hops)

    room = question.excess
    if room is not None and found.capped and any(question.beyond(_units(even, rows))):
        return found
    return found._replace(split=even, proven=True) if step(even) < step(found.split) else found


def _units(split: Sequence[int], rows: Rows) -> tuple[int, ...]:
    """Rows per stage as what can't be parted per stage: the prediction layers, which are on the last stage, are one."""
    counts = list(split)
    counts[-1] -= max(0, rows.extra - 1)
    return tuple(counts)


def setting_of(schedule: Schedule, pipeline: Pipeline, cluster: Cluster | None) -> Setting:
    """What costs depend on beside their own settings, without a split."""
    placement = schedule.placement(pipeline.ranks)
    return Setting(
        placement=placement,
        cluster=cluster or FREE_CLUSTER,
        micro_batch=pipeline.micro_batch_size,
        parts=len(schedule.cut()),
        data_parallel=pipeline.data_parallel,
        recompute=pipeline.recomputed_by_stage(placement.stages),
        layer_by_layer=pipeline.recompute_when == "late",
        trains=schedule.trains,
    )


def seated(cluster: Cluster, costs: Any, pipeline: Pipeline) -> Cluster:
    """The cluster with as many ranks on a node as devices have room there."""
    return cluster.seated(costs.devices if isinstance(costs, TransformerCosts) else 1, pipeline.data_parallel)


def parts_of(costs: AnyCosts, schedule: Schedule, pipeline: Pipeline, cluster: Cluster | None) -> Parts:
    """What a split depends on beside its rule."""
    topology = Topology(seated(cluster or FREE_CLUSTER, costs, pipeline), pipeline.ranks)
    return Parts(costs, schedule, pipeline, topology, setting_of(schedule, pipeline, cluster))


def planned(parts: Mapping[str, Any]) -> Schedule:
    """The schedule, with the replicas that PipeDream's planner gives it where it is asked and none are given."""
    schedule: Schedule = parts["schedule"]
    if parts["partition"] != PIPEDREAM or not isinstance(schedule, PipeDream) or schedule.replicas is not None:
        return schedule
    found = parts_of(parts["costs"], schedule, parts["pipeline"], parts["cluster"])
    if isinstance(found.costs, GivenCosts) or any(found.costs.problems(found.setting)):
        return schedule
    return schedule.model_copy(update={"replicas": replicas_for(profile_of(found.layers), found.topology)})


def split_mistakes(parts: Mapping[str, Any], schedule: Schedule) -> Iterator[Mistake]:
    """What is wrong with the layers' number and the way in which they are shared out."""
    if "partition" not in parts or _stands_alone(parts["partition"], parts["costs"], parts["pipeline"]):
        return
    found = parts_of(parts["costs"], schedule, parts["pipeline"], parts.get("cluster"))
    layers = found.pipeline.layers
    if layers is not None and not isinstance(found.costs, GivenCosts):
        rows = Rows.of(found.layers)
        if layers not in (rows.layers, rows.layers + rows.extra):
            text = f"{layers} layers, and costs of kind {found.costs.kind} have {rows.layers}; leave it out"
            yield Mistake(("pipeline", "layers"), text)
            return
    try:
        split(parts["partition"], found)
    except SplitError as error:
        more = largest_v(Rows.of(found.layers).layers, found.pipeline.ranks, found.setting.placement.stages)
        yield Mistake(("partition",), f"{error}{more}")

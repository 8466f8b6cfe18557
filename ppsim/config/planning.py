"""``partition: pipedream``: PipeDream's plan over a cluster's links."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ppsim.costs.layers import LayerCosts
from ppsim.costs.partition import pipedream
from ppsim.costs.partition.field import BALANCED, PIPEDREAM
from ppsim.costs.partition.layout import SplitError
from ppsim.costs.partition.pipedream import Level, Profile
from ppsim.hardware.cluster import Topology
from ppsim.schedules import Schedule
from ppsim.schedules.pipedream import PipeDream


def profile_of(layers: LayerCosts) -> Profile:
    """Layers as PipeDream's planner knows them."""
    return Profile(
        [layer.forward + layer.input_grad + layer.weight_grad for layer in layers.layers],
        [layer.gradients for layer in layers.layers],
        [layer.message for layer in layers.layers],
    )


def plan(layers: LayerCosts, schedule: Schedule, topology: Topology) -> pipedream.Plan:
    """PipeDream's plan for the ranks: for the schedule's replicas, where it has any.

    Without, the faster one of two: over the levels of the cluster's links, and all ranks alike on the slowest.
    """
    if not isinstance(schedule, PipeDream):
        raise SplitError(
            f"'{PIPEDREAM}' plans stages on several ranks each, which the schedule pipedream alone has; "
            f"'partition: {BALANCED}' suits {schedule.name}"
        )
    profile = profile_of(layers)
    replicas = schedule.replicas or replicas_for(profile, topology)
    syncs, links = _bandwidths(replicas, topology)
    return pipedream.with_replicas(profile, replicas, syncs, links)


def replicas_for(profile: Profile, topology: Topology) -> list[int]:
    """Ranks of each stage, by PipeDream's planner."""
    ranks = topology.ranks
    slowest = _slowest([topology.link(rank, rank + 1).bandwidth for rank in range(ranks - 1)])
    plans = [pipedream.plan(profile, [Level(ranks, slowest)])]
    nodes, rest = divmod(ranks, topology.per_node)
    if nodes > 1 and topology.per_node > 1 and not rest:
        inside, across = topology.link(0, 1).bandwidth, topology.link(0, topology.per_node).bandwidth
        plans.append(pipedream.plan(profile, [Level(topology.per_node, inside), Level(nodes, across)]))
    return min(plans, key=lambda found: found.period).replicas


def _slowest(bandwidths: Sequence[Fraction | None]) -> Fraction | None:
    return min((each for each in bandwidths if each is not None), default=None)


def _bandwidths(replicas: Sequence[int], topology: Topology) -> tuple[list[Fraction | None], list[Fraction | None]]:
    """What each stage's ranks sync over, and what leads from each stage to the next, at their slowest."""
    syncs: list[Fraction | None] = []
    links: list[Fraction | None] = []
    first = 0
    for copies in replicas:
        ring = [topology.link(rank, rank + 1).bandwidth for rank in range(first, first + copies - 1)]
        syncs.append(_slowest(ring))
        first += copies
        links.append(topology.link(first - 1, first).bandwidth if first < topology.ranks else None)
    return syncs, links[:-1]

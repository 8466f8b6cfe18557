"""What is legal in a config but costs something, can't fit, looks like a slip, or has no effect."""

from __future__ import annotations

from collections.abc import Iterator

from ppsim.config.experiment import Experiment
from ppsim.config.runtime import preset
from ppsim.costs import GivenCosts, TransformerCosts
from ppsim.costs.base import Values, per_value
from ppsim.errors import Notice
from ppsim.hardware import catalog
from ppsim.hardware.link import Link, PairLink
from ppsim.schedules import Problem
from ppsim.schedules.registry import plugin_notices
from ppsim.units import both_forms, parse, show, to_ns

MORE_RANKS = "more pipeline.ranks, each with a smaller part of the model"
SLIPS = (8, 1000, 1024)
"""Factors by which a unit is mistaken: bits for bytes, a prefix."""


def notices(experiment: Experiment, problem: Problem) -> Iterator[Notice]:
    """Every warning that the config, its schedule and the plug-ins give rise to by themselves."""
    schedule = experiment.schedule
    yield from plugin_notices()
    yield from schedule.notices(problem.ranks, experiment.pipeline.microbatches)
    yield from _zero_times(problem, schedule.trains)
    yield from _zero_sizes(experiment, problem)
    yield from _memory_alone(experiment, problem)
    yield from _without_effect(experiment)
    yield from _slips(experiment)
    if isinstance(experiment.costs, TransformerCosts):
        yield from _of_a_model(experiment, experiment.costs)
    if experiment.sweep is not None:
        yield Notice("sweep", "sweep", "this runs the base case; `ppsim sweep` runs the others")


def _of_a_model(experiment: Experiment, costs: TransformerCosts) -> Iterator[Notice]:
    """What is guessed or assumed where costs follow from a model."""
    given = costs.efficiency
    if given.guesses:
        what = {
            "matmul": "products reach {} of the peak rate",
            "memory": "what only reads and writes reaches {} of the memory's bandwidth",
        }
        said = [what[key].format(f"{float(getattr(given, key)):.0%}") for key in given.guesses]
        yield Notice(
            "guess",
            "costs.efficiency",
            f"{' and '.join(said)}: a guess; `ppsim calibrate` makes it a measurement, from a few step times, "
            "and `ppsim fit` from a trace",
        )
    cluster, pipeline = experiment.cluster, experiment.pipeline
    if cluster is not None and cluster.device.memory_bandwidth is None:
        yield Notice("unknown", "cluster.device", "without memory_bandwidth what only reads and writes takes no time")
    if pipeline.micro_batch_size is None:
        yield Notice("assumed", "pipeline.micro_batch_size", "isn't given: 1 sample per microbatch")
    modes = pipeline.recompute if isinstance(pipeline.recompute, list) else [pipeline.recompute]
    if "recompute_modules" in costs.model_fields_set and "selective" not in modes:
        yield Notice("no_effect", "costs.recompute_modules", "has no effect: pipeline.recompute isn't selective")


def _zero_times(problem: Problem, trains: bool) -> Iterator[Notice]:
    for key in ("forward", "backward") if trains else ("forward",):
        values: Values = getattr(problem.costs, key)
        zero = [stage for stage, ns in enumerate(per_value(values, to_ns)) if ns == 0]
        if zero:
            where = "all stages" if len(zero) == problem.stages else f"stage {', '.join(map(str, zero[:8]))}"
            longest = max(values[stage] for stage in zero)
            why = f": {show(longest, 'time')} rounds to 0 ns" if longest else ""
            yield Notice("zero_time", f"costs.{key}", f"takes no time on {where}{why}")


def _zero_sizes(experiment: Experiment, problem: Problem) -> Iterator[Notice]:
    """Sizes that a bandwidth or a device's memory is given for, and that are nothing, their default."""
    cluster, costs = experiment.cluster, problem.costs
    if cluster is None:
        return
    links = (cluster.intra_node, cluster.inter_node, *cluster.links)
    limited = any(link is not None and link.bandwidth is not None for link in links)
    crossing = problem.ranks > 1 and problem.stages > 1
    if limited and crossing and not any(costs.message):
        yield Notice("zero_size", "costs.message", "is 0 B: messages between stages are empty at any bandwidth")
    if cluster.device.memory is not None and not any(costs.activation):
        yield Notice("zero_size", "costs.activation", "is 0 B: memory is counted without activations")


def _memory_alone(experiment: Experiment, problem: Problem) -> Iterator[Notice]:
    cluster = experiment.cluster
    if cluster is None or cluster.device.memory is None:
        return
    for rank in range(problem.ranks):
        needed = problem.held_throughout(rank)
        if needed > cluster.device.memory:
            yield Notice(
                "weights_alone",
                "costs.weights",
                f"weights, gradients and optimizer state of rank {rank} alone need {show(needed, 'size')}, the device "
                f"has {show(cluster.device.memory, 'size')}; what helps: {what_saves_memory(experiment, problem)}",
            )
            return


def what_saves_memory(experiment: Experiment, problem: Problem) -> str:
    """The settings with which less is held at once; where what is held throughout is too much, those for that."""
    memory = experiment.topology().cluster.device.memory
    model = _what_saves_of_a_model(experiment)
    smaller = ", or ".join([MORE_RANKS, *model])
    if memory is not None and any(problem.held_throughout(rank) > memory for rank in range(problem.ranks)):
        return smaller
    pipeline, costs = experiment.pipeline, problem.costs
    found = [experiment.schedule.saves_memory]
    # What a model keeps for a recomputation is known where it recomputes.
    kept = bool(model) or any(small < whole for small, whole in zip(costs.stage_input, costs.activation, strict=True))
    found += (
        ["pipeline.recompute: full"] if pipeline.recompute == "none" and experiment.schedule.trains and kept else []
    )
    found += ["a smaller pipeline.micro_batch_size"] if (pipeline.micro_batch_size or 1) > 1 else []
    return ", ".join(filter(None, [*found, *model])) or MORE_RANKS


def _what_saves_of_a_model(experiment: Experiment) -> list[str]:
    """The settings with which a model leaves less on each device, where costs follow from one."""
    costs = experiment.costs
    if not isinstance(costs, TransformerCosts):
        return []
    sharded = costs.optimizer_sharding != "none" or experiment.pipeline.data_parallel == 1
    return ["more costs.tensor_parallel", *([] if sharded else ["costs.optimizer_sharding: optimizer"])]


def _without_effect(experiment: Experiment) -> Iterator[Notice]:
    cluster, runtime, pipeline = experiment.cluster, experiment.runtime, experiment.pipeline
    given = experiment.costs if isinstance(experiment.costs, GivenCosts) else None
    idle: list[tuple[str, str]] = []
    if pipeline.ranks == 1:
        if cluster is not None:
            idle += [
                (f"cluster.{key}", "one rank sends nothing")
                for key in ("intra_node", "inter_node")
                if getattr(cluster, key) is not None and pipeline.data_parallel == 1
            ]
        idle += [("runtime.send", "one rank sends nothing")] if runtime.send != "overlapped" else []
        idle += [("costs.message", "one rank sends nothing")] if given is not None and given.message != 0 else []
    idle += [
        (f"cluster.links.{index}", "it says nothing about the pair's link")
        for index, pair in enumerate(cluster.links if cluster is not None else ())
        if {pair.like, pair.bandwidth, pair.latency, pair.overhead} == {None}
    ]
    if runtime.eager_threshold and runtime.send != "rendezvous":
        idle.append(("runtime.eager_threshold", "it matters under send: rendezvous alone"))
    if runtime.transport == "none" and runtime.receives != (
        by_preset.value if (by_preset := preset(runtime.preset, experiment.schedule.name).get("receives")) else "late"
    ):
        idle.append(("runtime.receives", "it matters over a transport alone, as transport: gloo"))
    if experiment.schedule.double_buffered and runtime.grad_sync == "overlapped" and runtime.preset == "ideal":
        idle.append(
            ("runtime.grad_sync", f"{experiment.schedule.name} sums gradients when a step's last backward ends")
        )
    if pipeline.recompute == "none" and pipeline.recompute_when == "late":
        idle.append(("pipeline.recompute_when", "nothing is recomputed"))
    if runtime.p2p == "fused" and pipeline.recompute != "none" and pipeline.recompute_when == "early":
        idle.append(("pipeline.recompute_when", "after a fused batch a recomputation has its gradient, too"))
    if given is not None and given.micro_batch_size is not None and pipeline.micro_batch_size is None:
        idle.append(("costs.micro_batch_size", "pipeline.micro_batch_size is not given"))
    for key, why in idle:
        yield Notice("no_effect", key, f"has no effect: {why}")


def of_recomputation(experiment: Experiment, listed: bool) -> Iterator[Notice]:
    """What is said of recomputation where there is none: not by the config, nor ``listed`` by the order itself."""
    given = experiment.costs if isinstance(experiment.costs, GivenCosts) else None
    if given is None or experiment.pipeline.recompute != "none" or listed:
        return
    for key in ("recompute", "stage_input"):
        if getattr(given, key) is not None:
            yield Notice("no_effect", f"costs.{key}", "has no effect: nothing is recomputed")


def _slips(experiment: Experiment) -> Iterator[Notice]:
    cluster = experiment.cluster
    if cluster is None:
        return
    links: list[tuple[str, Link | PairLink | None]] = [
        ("intra_node", cluster.intra_node),
        ("inter_node", cluster.inter_node),
        *((f"links.{i}", pair) for i, pair in enumerate(cluster.links)),
    ]
    for key, link in links:
        if link is None or link.like in (None, "free") or link.bandwidth is None:
            continue
        usual = parse(catalog.row("link", link.like)["bandwidth"], "bandwidth")
        for factor in SLIPS:
            if link.bandwidth in (usual * factor, usual / factor):
                yield Notice(
                    "factor",
                    f"cluster.{key}.bandwidth",
                    f"{both_forms(link.bandwidth, 'bandwidth')} is a factor {factor} off {link.like}'s "
                    f"{both_forms(usual, 'bandwidth')}: bits for bytes, or a prefix?",
                )

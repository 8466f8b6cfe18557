"""The device that follows from a model's costs and what they depend on: its share of the model, its rates and links."""

from __future__ import annotations

from fractions import Fraction

from ppsim.costs.message import DTYPE_BYTES
from ppsim.costs.setting import Setting
from ppsim.costs.transformer.build import Device
from ppsim.costs.transformer.efficiency import Machine
from ppsim.costs.transformer.memory import Held
from ppsim.costs.transformer.settings import TransformerSettings
from ppsim.costs.transformer.sizes import Sizes
from ppsim.costs.transformer.terms import Group
from ppsim.hardware.link import FREE, Link


def device(costs: TransformerSettings, setting: Setting) -> Device:
    """One device's share of the model and what it runs on; the device's peak rate is known."""
    sizes = Sizes(
        model=costs.model,
        sequence=costs.tokens,
        batch=setting.micro_batch or 1,
        tensor=costs.tensor_parallel,
        context=costs.context_parallel,
        expert=costs.expert_parallel,
        expert_tensor=costs.expert_tensor,
        sequence_parallel=costs.spreads,
        element=costs.precision.element,
        padding=costs.vocabulary_padding,
        flash=costs.attention == "flash",
        fused_cross_entropy=costs.cross_entropy == "fused",
        fused_accumulation=costs.gradient_accumulation == "fused",
        dropout=costs.dropout,
        capacity=costs.expert_capacity,
        context_by_ring=costs.context_exchange == "ring",
    )
    replicas = setting.data_parallel
    machine = Machine(
        efficiency=costs.efficiency,
        peak=setting.cluster.device.peak(costs.product_type) or Fraction(1),
        bandwidth=setting.cluster.device.memory_bandwidth,
        links=links(costs, setting),
        members={
            "tensor": costs.tensor_parallel,
            "context": costs.context_parallel,
            "expert": costs.expert_parallel,
            "data": replicas * costs.context_parallel,
        },
        tree=costs.collectives == "tree",
        element=sizes.element,
    )
    held = Held(
        weight=DTYPE_BYTES[costs.precision.weights],
        gradient=DTYPE_BYTES[costs.precision.gradients],
        state=costs.precision.state,
        sharding=costs.optimizer_sharding,
        shards=replicas * costs.context_parallel,
        expert_shards=max(1, replicas * costs.devices // (costs.expert_parallel * costs.expert_tensor)),
    )
    return Device(sizes, machine, held, costs.workspace, replicas)


def spans(costs: TransformerSettings, data_parallel: int) -> dict[Group, int]:
    """Devices that stand side by side from a group's first to its last: tensor, context, expert, data, as Megatron's.

    Source: Megatron-LM core, parallel_state.py (order tp-cp-ep-dp-pp).
    """
    t, devices = costs.tensor_parallel, costs.devices
    return {
        "tensor": t,
        "context": devices,
        "expert": costs.expert_parallel * costs.expert_tensor,
        "data": devices * data_parallel,
    }


def links(costs: TransformerSettings, setting: Setting) -> dict[Group, Link]:
    """The link of each group of several devices: within a node, or between nodes where it reaches beyond one."""
    cluster = setting.cluster
    inside = cluster.intra_node or cluster.inter_node or FREE
    outside = cluster.inter_node or cluster.intra_node or FREE
    per_node = cluster.devices_per_node
    return {
        group: inside if per_node is None or span <= per_node else outside
        for group, span in spans(costs, setting.data_parallel).items()
        if span > 1
    }

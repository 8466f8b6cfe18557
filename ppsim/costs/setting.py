"""What costs depend on beside their own settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ppsim.hardware.cluster import Cluster
from ppsim.ops.placement import Placement

Recompute = Literal["none", "full", "except_last", "selective"]

FREE_CLUSTER = Cluster()


@dataclass(frozen=True)
class Setting:
    """The stages, and the sizes and devices of the experiment that costs are asked for."""

    placement: Placement
    cluster: Cluster = FREE_CLUSTER
    micro_batch: int | None = None
    """Samples per microbatch, where they are given."""
    parts: int = 1
    """Slices that a schedule cuts a microbatch into; costs are a mean slice's."""
    data_parallel: int = 1
    recompute: tuple[Recompute, ...] = ()
    """What each stage recomputes (empty: nothing)."""
    layer_by_layer: bool = False
    """A recomputation stands inside the backward, a layer after the other."""
    trains: bool = True
    """There are backwards."""
    split: tuple[int, ...] | None = None
    """Rows of the model on each stage, embedding and head among them; None where costs are given per stage."""

"""Zero bubble under any memory limit, its order chosen by the costs."""

from __future__ import annotations

from typing import Literal

from ppsim.schedules.search.schedule import Searched


class ZB(Searched):
    """Zero bubble by search: F, I and W in the order that is fastest with these costs and fits the memory.

    ``max_in_flight`` p is ZB-1P's memory, 2p ZB-2P's; by default the devices' memory is the limit, or p where it isn't
    known. Never slower than 1F1B, ZB-H1 or ZB-H2 where these fit, nor than ``greedy``.
    Source: Qi et al. 2024 (Zero Bubble), arXiv 2401.10241, section 3 (its heuristic; the search is our own).
    """

    name: Literal["zb"] = "zb"

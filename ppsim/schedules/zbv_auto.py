"""ZB-V by search."""

from __future__ import annotations

from typing import Literal

from ppsim.schedules.search.schedule import SearchedV


class ZBVAuto(SearchedV):
    """ZB-V with an order chosen by the costs: two chunks per rank, up and down a V, at 1F1B's memory.

    Source: Qi et al. 2024 (Zero Bubble), arXiv 2401.10241, section 6; the search is our own.
    """

    name: Literal["zbv_auto"] = "zbv_auto"

    def default_limit(self, ranks: int) -> int:
        """p activations of a rank's two chunks."""
        return 2 * ranks

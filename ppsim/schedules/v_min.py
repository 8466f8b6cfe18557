"""V-Min: a third of 1F1B's memory."""

from __future__ import annotations

from typing import ClassVar, Literal

from ppsim.schedules.search.schedule import SearchedV


class VMin(SearchedV):
    """V-Min: floor((p+4)/3) activations on every rank, about a third of 1F1B's, for two thirds of its bubble.

    Source: Qi et al. 2024 (Pipeline parallelism with controllable memory), arXiv 2405.15362, table 1.
    """

    name: Literal["v_min"] = "v_min"

    own_limit: ClassVar[bool] = True

    def default_limit(self, ranks: int) -> int:
        """Activations of a chunk, two of which make one of a rank; on two ranks three chunks are enough."""
        return 3 if ranks == 2 else 2 * ((ranks + 4) // 3)

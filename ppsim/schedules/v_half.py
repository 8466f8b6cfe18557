"""V-Half: half of 1F1B's memory."""

from __future__ import annotations

from typing import ClassVar, Literal

from ppsim.schedules.search.schedule import SearchedV


class VHalf(SearchedV):
    """V-Half: floor((p+2)/2) activations on every rank, about half of 1F1B's, for about half of its bubble.

    Source: Qi et al. 2024 (Pipeline parallelism with controllable memory), arXiv 2405.15362, table 1.
    """

    name: Literal["v_half"] = "v_half"

    own_limit: ClassVar[bool] = True

    def default_limit(self, ranks: int) -> int:
        """Activations of a chunk, two of which make one of a rank."""
        return 2 * ((ranks + 2) // 2)

"""Stage costs that neighbouring cases share."""

from __future__ import annotations

from typing import Any

from ppsim._latest import Latest
from ppsim.costs.base import StageCosts
from ppsim.costs.given import GivenCosts
from ppsim.costs.setting import Setting


class SharedCosts:
    """``costs.stage_costs(setting)`` of the latest cases, worked out once of the same given costs.

    Those of a model are kept where they are made.
    """

    def __init__(self, most: int) -> None:
        self._latest: Latest[tuple[StageCosts, GivenCosts]] = Latest(most)

    def of(self, costs: Any, setting: Setting) -> StageCosts:
        """The stages' costs."""
        if not isinstance(costs, GivenCosts):
            made: StageCosts = costs.stage_costs(setting)
            return made
        key = (id(costs), *costs.depends_on(setting))
        return self._latest.of(key, lambda: (costs.stage_costs(setting), costs))[0]

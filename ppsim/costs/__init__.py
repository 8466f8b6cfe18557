"""What an op of each kind and stage takes, sends and holds."""

from ppsim.costs.base import StageCosts
from ppsim.costs.given import GivenCosts

__all__ = ["GivenCosts", "StageCosts"]

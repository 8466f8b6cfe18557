"""What an op of each kind and stage takes, sends and holds."""

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from ppsim.costs.base import StageCosts
from ppsim.costs.given import GivenCosts
from ppsim.costs.setting import Setting
from ppsim.costs.transformer import TransformerCosts

AnyCosts = GivenCosts | TransformerCosts
KINDS: dict[str, type[GivenCosts] | type[TransformerCosts]] = {"given": GivenCosts, "transformer": TransformerCosts}
"""The kinds of costs: `costs.kind` says which."""


def _kind(value: Any) -> str:
    """The alternative that costs are held against; what isn't one is told by the first."""
    kind = value.get("kind", "given") if isinstance(value, dict) else getattr(value, "kind", "given")
    return f"<{kind}>" if isinstance(kind, str) and kind in KINDS else "<given>"


CostsField = Annotated[
    Annotated[GivenCosts, Tag("<given>")] | Annotated[TransformerCosts, Tag("<transformer>")], Discriminator(_kind)
]
"""Costs of any kind."""

__all__ = ["KINDS", "AnyCosts", "CostsField", "GivenCosts", "Setting", "StageCosts", "TransformerCosts"]

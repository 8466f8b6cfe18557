"""What an op of each kind and stage takes, sends and holds."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Discriminator, Tag, WithJsonSchema, field_validator

from ppsim.costs.base import StageCosts
from ppsim.costs.given import GivenCosts
from ppsim.costs.profile import ProfileCosts
from ppsim.costs.setting import Setting
from ppsim.costs.transformer import TransformerCosts
from ppsim.errors import did_you_mean, shown

AnyCosts = GivenCosts | TransformerCosts | ProfileCosts
KINDS: dict[str, type[AnyCosts]] = {"given": GivenCosts, "transformer": TransformerCosts, "profile": ProfileCosts}
"""The kinds of costs: `costs.kind` says which."""


class _NoKind(BaseModel):
    """Costs of a kind that isn't known: that alone is what is wrong with them."""

    kind: Any

    @field_validator("kind", mode="before")
    @classmethod
    def _unknown(cls, kind: Any) -> Any:
        hint = did_you_mean(kind, KINDS) if isinstance(kind, str) else ""
        raise ValueError(f"{shown(kind)} is not one of {', '.join(KINDS)}{hint}")


def _kind(value: Any) -> str:
    """The alternative that costs are held against."""
    kind = value.get("kind", "given") if isinstance(value, dict) else getattr(value, "kind", "given")
    return f"<{kind}>" if isinstance(kind, str) and kind in KINDS else "<none>"


if TYPE_CHECKING:  # what isn't of a kind never gets that far
    CostsField = AnyCosts
else:
    CostsField = Annotated[
        Annotated[GivenCosts, Tag("<given>")]
        | Annotated[TransformerCosts, Tag("<transformer>")]
        | Annotated[ProfileCosts, Tag("<profile>")]
        | Annotated[_NoKind, Tag("<none>"), WithJsonSchema({"not": {}})],
        Discriminator(_kind),
    ]
    """Costs of any kind."""

__all__ = ["KINDS", "AnyCosts", "CostsField", "GivenCosts", "ProfileCosts", "Setting", "StageCosts", "TransformerCosts"]

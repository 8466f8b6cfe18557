"""What a cluster says of how messages share it: a rule by its name, and switches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from ppsim import _parts
from ppsim._model import Model, Whole
from ppsim.errors import did_you_mean
from ppsim.units import PositiveBandwidth


class Switch(Model):
    """A switch that several ranks share: what they send together, and what they receive, is limited."""

    ranks: list[Whole] = Field(min_length=1)
    """Those that are connected by it."""
    bandwidth: PositiveBandwidth
    """One way: of all that they send, and likewise of all that they receive."""
    carries: Literal["intra_node", "inter_node"] | None = None
    """The link whose messages go through it (default: `inter_node` where the cluster names one)."""


SHARING = list(_parts.names("network/sharing"))


def _known_sharing(name: str) -> str:
    if name not in SHARING:
        raise ValueError(f"unknown rule '{name}'{did_you_mean(name, SHARING) or ';'} known: {', '.join(SHARING)}")
    return name


Sharing = Annotated[str, AfterValidator(_known_sharing), WithJsonSchema({"enum": SHARING})]
"""A rule of ``network.sharing``, by its name."""

"""Links: what connects two ranks, one way, and what a pair of ranks has instead."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from ppsim._model import Model, Whole
from ppsim.hardware import catalog
from ppsim.hardware.device import from_catalog, row_of
from ppsim.units import PositiveBandwidth, Time

ZERO = Fraction(0)


def _known_link(name: str | None) -> str | None:
    if name is not None:
        row_of("link", name)
    return name


class Link(Model):
    """A link, one way: a message holds its ports for ``overhead + bytes / bandwidth`` and arrives ``latency`` later."""

    like: str | None = None
    """The row of the catalog that this is, or changes."""
    bandwidth: PositiveBandwidth | None = None
    """One way. Without it a message takes no time on the ports, however large."""
    latency: Time = ZERO
    """Time of flight; it doesn't hold the ports."""
    overhead: Time = ZERO
    """Time per message on the ports, whatever its size."""

    @property
    def has_ports(self) -> bool:
        """Whether messages queue: a free link, and one with a latency alone, has no ports."""
        return self.bandwidth is not None or bool(self.overhead)

    def alone(self, size: Fraction | int) -> Fraction:
        """Seconds for which a message of so many bytes holds the ports."""
        carried = ZERO if self.bandwidth is None else size / self.bandwidth
        return carried + self.overhead if self.overhead else carried


class PairLink(Model):
    """What one pair of ranks has instead of the default, in both directions."""

    @model_validator(mode="before")
    @classmethod
    def _both_ways(cls, value: object) -> object:
        if isinstance(value, dict) and {"src", "dst"} & set(value):
            ends = ", ".join(str(value.get(end, "?")) for end in ("src", "dst"))
            raise ValueError(f"a pair's link holds in both directions; write 'ranks: [{ends}]'")
        return value

    ranks: list[Whole] = Field(min_length=2, max_length=2)
    """The two ranks."""
    like: Annotated[str | None, AfterValidator(_known_link)] = None
    """A row of the catalog for this pair, or `free`."""
    bandwidth: PositiveBandwidth | None = None
    """One way; unset: the default's."""
    latency: Time | None = None
    """Time of flight; unset: the default's."""
    overhead: Time | None = None
    """Time per message on the ports; unset: the default's."""


LINK_FIELDS = ("bandwidth", "latency", "overhead")
LinkField = Annotated[Link, from_catalog("link", LINK_FIELDS, Link)]


FREE = Link()


def class_of(row: str | None) -> str | None:
    """The class of a row of the catalog."""
    if row is None or row == "free":
        return None
    return str(catalog.row("link", row).get("class"))

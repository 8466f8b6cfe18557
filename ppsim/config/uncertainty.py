"""How sure the costs are: random factors on ops and transfers, slow ranks, and how often to repeat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, Strict

from ppsim._model import Model, OneOrMore, Whole
from ppsim.units import Factor

Share = Annotated[float, Strict(), Field(ge=0, le=1)]
Variation = Annotated[float, Strict(), Field(ge=0, le=10)]


class Jitter(Model):
    """Random factors on times: lognormal, with a mean of 1."""

    ops: Variation = 0.0
    """Standard deviation of the factor on an op's time, as a share of it: 0.05 is five per cent."""
    transfers: Variation = 0.0
    """The same for a transfer, its time on the ports and its latency alike."""
    scope: Literal["op", "rank", "shared"] = "op"
    """What has a factor of its own in a repeat: every op and transfer, every rank (a transfer: its sender's), or all
    have one together."""


class Slow(Model):
    """A straggler: a rank whose ops take longer in a repeat, always or now and then."""

    rank: Whole = Field(ge=0)
    """Which rank."""
    factor: Factor
    """How many times as long its ops take."""
    probability: Share = 1.0
    """How likely it is slow in a repeat."""


class Uncertainty(Model):
    """What varies from one repeat of the same step to the next."""

    repeat: Whole = Field(ge=1, le=1_000_000)
    """How often the run is simulated with times drawn anew."""
    seed: Whole = Field(0, ge=0)
    """Where the random numbers come from; the same seed gives the same ones."""
    jitter: Jitter = Jitter()
    """Random factors on the times of ops and transfers."""
    slow: OneOrMore[Slow] = Field([])
    """Ranks that are slow."""

    @property
    def stragglers(self) -> list[Slow]:
        """``slow`` as a list."""
        return self.slow if isinstance(self.slow, list) else [self.slow]

    def problems(self, ranks: int) -> Iterator[tuple[str, str]]:
        """(key, what is wrong) for so many ranks."""
        for index, slow in enumerate(self.stragglers):
            if slow.rank >= ranks:
                key = f"slow.{index}.rank" if isinstance(self.slow, list) else "slow.rank"
                yield key, f"rank {slow.rank} is unknown; the ranks are 0 to {ranks - 1}"

"""What a long run is at, for whoever looks on from another thread."""

from __future__ import annotations

from collections.abc import Callable


class Watch:
    """The stage of the flow that a run is at, and how much of it is done."""

    def __init__(self) -> None:
        self.stage = "orders"
        self._share: Callable[[], float] | None = None

    def at(self, stage: str, share: Callable[[], float] | None = None) -> None:
        """Another stage begins; ``share`` says, from 0 to 1, how much of it is done, where that can be known."""
        self.stage, self._share = stage, share

    @property
    def share(self) -> float | None:
        """How much of the stage is done, from 0 to 1; None where it isn't known."""
        share = self._share
        return None if share is None else share()

"""The flow is a straight walk: it goes through each room once, in order."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from types import FrameType

import ppsim
import ppsim.analysis.flow
from tests.simulated import experiment

PACKAGE = Path(ppsim.__file__).parent
FLOW = str(ppsim.analysis.flow.__file__)


def room(frame: FrameType | None) -> str | None:
    """The room of the package that a function is in; None outside of it."""
    path = Path(frame.f_code.co_filename) if frame is not None else Path("/")
    return path.relative_to(PACKAGE).parts[0] if path.is_relative_to(PACKAGE) else None


def test_simulate_goes_through_each_room_once() -> None:
    walked: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        entered = room(frame)
        called_by = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        looks_on = frame.f_code.co_filename.endswith("watch.py") or frame.f_code.co_name == "__init__"
        if event == "call" and entered not in (None, "analysis") and called_by == FLOW and not looks_on:
            walked.append(str(entered))

    found = experiment("zb_h1", 4, 8, cluster={"inter_node": {"bandwidth": "10 GB/s"}}, costs={"message": "1 MB"})
    ppsim.simulate(found)  # what is loaded when it is first needed isn't part of the walk
    sys.setprofile(note)
    try:
        ppsim.simulate(found)
    finally:
        sys.setprofile(None)
    rooms = [name for name, _ in groupby(walked)]
    assert rooms == ["config", "schedules", "plan", "engine"]

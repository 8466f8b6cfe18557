"""ppsim's own order file, with everything that an order can say."""

from __future__ import annotations

from typing import TextIO

from ppsim.analysis.result import Result
from ppsim.formats.base import file_format
from ppsim.ops import orderfile as dialects


@file_format("order", does="export", what="ppsim's own order file, for {schedule: {name: file, path: …}}")
def write(result: Result, stream: TextIO) -> None:
    """Write one step's order, a row per rank."""
    stream.write(dialects.write(result.orders))

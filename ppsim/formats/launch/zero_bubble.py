"""sail-sg's zero-bubble fork of Megatron-LM: its own runtime, its schedules, layers that are padded.

Source: sail-sg/zero-bubble-pipeline-parallelism, megatron/core/zbpp_utils.py, megatron/training/arguments.py
(--allow-padding-num-layers) and legacy/model/transformer.py (get_offset).
"""

from __future__ import annotations

from typing import Any

from ppsim.costs.partition.layout import Split
from ppsim.formats._launch import File, Settings, Sizes
from ppsim.formats.launch.base import launcher
from ppsim.formats.megatron.layers import LAYOUT
from ppsim.formats.megatron.options import CHUNKS, PADDING, PER_CHUNK, V_SCHEDULE, ZERO_BUBBLE
from ppsim.formats.megatron.reader import Reader, settings_of

OWN_RUNTIME = "--enable-zb-runtime"


@launcher(
    "zero-bubble",
    "sail-sg's zero-bubble fork of Megatron-LM",
    marks=(ZERO_BUBBLE, V_SCHEDULE, "--zero-bubble-", OWN_RUNTIME, "--enable-1f1b-v", PADDING),
)
def read(file: File) -> Settings:
    """Its settings."""
    return settings_of(file)


class ZeroBubble(Reader):
    """What the fork does otherwise."""

    launcher = "zero-bubble"
    marks = (ZERO_BUBBLE, V_SCHEDULE, OWN_RUNTIME, PADDING)

    def schedule(self, sizes: Sizes, split: Split) -> Any:
        """Its runtime has an interleaved order of its own."""
        grouped = OWN_RUNTIME in self.arguments.others and split.chunks > 1 and not self.arguments.has(V_SCHEDULE)
        if grouped:
            given = next((n for n in (PER_CHUNK, CHUNKS, LAYOUT) if self.arguments.has(n)), PER_CHUNK)
            self.arguments.wrong(given, f"with {OWN_RUNTIME} runs grouped interleaving, which isn't modelled")
            return None
        return super().schedule(sizes, split)

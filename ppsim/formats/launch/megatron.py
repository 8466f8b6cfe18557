"""Megatron-LM: a script that gives arguments to its program, or a list of them."""

from __future__ import annotations

from ppsim.formats._launch import File, Settings
from ppsim.formats.launch.base import launcher
from ppsim.formats.megatron.reader import settings_of


@launcher("megatron", "Megatron-LM's arguments, in a launch script or a list")
def read(file: File) -> Settings:
    """Its settings; of its relatives, too, where the arguments are theirs."""
    return settings_of(file)

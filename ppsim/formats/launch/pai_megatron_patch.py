"""Alibaba's Pai-Megatron-Patch: Megatron's arguments, behind scripts whose own arguments have no names.

Source: alibaba/Pai-Megatron-Patch, megatron_patch/arguments.py and examples/*/run_*.sh.
"""

from __future__ import annotations

from ppsim.formats._launch import File, Settings
from ppsim.formats.launch.base import launcher
from ppsim.formats.megatron.reader import Reader, settings_of


@launcher(
    "pai-megatron-patch",
    "Alibaba's Pai-Megatron-Patch",
    marks=(r"--patch-tokenizer-type\b", r"--extra-vocab-size\b", r"MEGATRON_PATCH_PATH", r"\bPAI-Megatron"),
)
def read(file: File) -> Settings:
    """Its settings."""
    return settings_of(file)


class PaiMegatronPatch(Reader):
    """Megatron itself, as far as a pipeline is concerned."""

    launcher = "pai-megatron-patch"
    marks = ("--patch-tokenizer-type", "--extra-vocab-size")

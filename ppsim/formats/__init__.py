"""Other people's files: what ``ppsim export`` writes and ``ppsim import`` reads. A format is a file of this folder."""

from ppsim.formats.base import Does, Format, file_format
from ppsim.formats.registry import known, that

__all__ = ["Does", "Format", "file_format", "known", "that"]

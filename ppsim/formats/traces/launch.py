"""What a trace lacks and a launch script tells: the message's size, the layers, the micro-batch size."""

from __future__ import annotations

from ppsim.analysis.measured.settings import Known
from ppsim.costs.message import Shape
from ppsim.formats.launch import File, launcher_of


def known(text: str, label: str) -> Known:
    """The sizes in a launch file's text. Raises FormatError, a line for each mistake."""
    file = File(text, label)
    settings = launcher_of(file).read(file)
    return Known(
        message_bytes=None if settings.message is None else round(Shape(**settings.message).size),
        layers=sum(settings.layers),
        micro_batch_size=settings.sizes.micro_batch,
        ranks=settings.sizes.ranks,
        source=label,
    )

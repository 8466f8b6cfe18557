"""What a trace lacks and a launch script tells: the message's size, the layers, the micro-batch size."""

from __future__ import annotations

from fractions import Fraction
from io import StringIO

from ruamel.yaml import YAML

from ppsim.analysis.measured.settings import Known
from ppsim.config.experiment import Experiment
from ppsim.formats.megatron import convert
from ppsim.formats.megatron.arguments import Arguments
from ppsim.formats.megatron.settings import Reader

_ANY = Fraction(1, 1000)


def known(text: str, label: str) -> Known:
    """The sizes in a Megatron launch script's text. Raises FormatError, a line for each mistake."""
    experiment = Experiment(**YAML(typ="safe").load(StringIO(convert(text, label).text)))
    reader = Reader(Arguments(text, {}), None)
    reader.settings(_ANY, _ANY)
    message = experiment.problem().costs.message[0]
    pipeline = experiment.pipeline
    return Known(
        message_bytes=round(message) or None,
        layers=sum(reader.split.layers) if reader.split is not None else None,
        micro_batch_size=pipeline.micro_batch_size,
        source=label,
        ranks=pipeline.ranks,
    )

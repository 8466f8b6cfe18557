"""What a trace lacks and a launch script tells: the message's size, the layers, the micro-batch size."""

from __future__ import annotations

from fractions import Fraction
from io import StringIO

from ruamel.yaml import YAML

from ppsim.analysis.measured.settings import Known
from ppsim.config.experiment import Experiment
from ppsim.formats.megatron import convert

_LAYER = Fraction(1, 1000)
"""Seconds of a layer's forward, so that a stage's tells its layers."""


def known(text: str, label: str) -> Known:
    """The sizes in a Megatron launch script's text. Raises FormatError, a line for each mistake."""
    made = convert(text, label, forward=_LAYER, backward=_LAYER)
    experiment = Experiment(**YAML(typ="safe").load(StringIO(made.text)))
    costs = experiment.problem().costs
    return Known(
        message_bytes=round(costs.message[0]) or None,
        layers=int(sum(costs.forward, Fraction(0)) / _LAYER),
        micro_batch_size=experiment.pipeline.micro_batch_size,
        ranks=experiment.pipeline.ranks,
        source=label,
    )

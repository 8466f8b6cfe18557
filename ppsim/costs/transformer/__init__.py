"""Costs from a model: its sizes -> terms -> layers."""

from ppsim.costs.transformer.costs import TransformerCosts
from ppsim.costs.transformer.count import active_parameters, parameters
from ppsim.costs.transformer.model import TransformerModel
from ppsim.costs.transformer.source import expand

__all__ = ["TransformerCosts", "TransformerModel", "active_parameters", "expand", "parameters"]

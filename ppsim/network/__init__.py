"""How a message takes time: rules by which messages share ports, and what a framework's messages wait for.

Engines and metrics ask the ``Rule`` of a plan (``rule_of``). A module of ``sharing`` is a rule, one of ``transports`` a
framework's transport; its name is what a config calls it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from ppsim.network.base import Load, Moments, Rule, Traffic, Transport
from ppsim.plan.table import Plan

__all__ = ["Load", "Moments", "Rule", "Traffic", "Transport", "rule", "rule_of", "transport"]


def rule_of(plan: Plan) -> Rule:
    """The rule by which a plan's messages share what they go over."""
    return rule(plan.sharing)


@cache
def rule(name: str) -> Rule:
    """A rule by its name."""
    found: Rule = import_module(f"ppsim.network.sharing.{name}").RULE
    return found


def transport(name: str) -> Transport:
    """A framework's transport by its name."""
    found: Transport = import_module(f"ppsim.network.transports.{name}").TRANSPORT
    return found

"""Costs from a profile: measured layers, in a table of our own or as other profilers write them."""

from ppsim.costs.profile.costs import ProfileCosts

__all__ = ["ProfileCosts"]

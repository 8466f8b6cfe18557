"""Orders + StageCosts + Cluster -> Plan: arrays with nothing left to decide."""

from ppsim.plan.build import build
from ppsim.plan.check import check
from ppsim.plan.table import CATEGORIES, Category, Events, Holdings, Needs, Plan, Routes, Transfers

__all__ = ["CATEGORIES", "Category", "Events", "Holdings", "Needs", "Plan", "Routes", "Transfers", "build", "check"]

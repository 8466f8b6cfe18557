"""Orders + PlanSpec -> Plan: arrays with nothing left to decide."""

from ppsim.plan.build import build
from ppsim.plan.check import CheckedOrders, check
from ppsim.plan.dependencies import Dependencies
from ppsim.plan.spec import PlanSpec, Recompute, Sending, Sync
from ppsim.plan.structure import Structures
from ppsim.plan.table import CATEGORIES, Category, Events, Holdings, Lines, Plan, Routes, Transfers, Turns

__all__ = [
    "CATEGORIES", "Category", "CheckedOrders", "Dependencies", "Events", "Holdings", "Lines", "Plan", "PlanSpec",
    "Recompute", "Routes", "Sending", "Structures", "Sync", "Transfers", "Turns", "build", "check"
]  # fmt: skip

"""Parametrised cases of which the quick part runs only some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_slow(cases: Iterable[Any], quick: int = 1, *, several: bool = False) -> list[Any]:
    """The cases, those after the first ``quick`` marked slow; ``several``: a case is a tuple of parameters."""
    return [
        pytest.param(*(case if several else (case,)), marks=[pytest.mark.slow] * (place >= quick))
        for place, case in enumerate(cases)
    ]

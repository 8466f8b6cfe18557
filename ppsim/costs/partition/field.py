"""The setting ``partition``: a rule's name, layers per stage, or a Megatron layout."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag

from ppsim._model import Whole, one_or_list
from ppsim.errors import did_you_mean, shown

UNIFORM, BALANCED, PIPEDREAM = "uniform", "balanced", "pipedream"
RULES = (UNIFORM, BALANCED, PIPEDREAM)


def is_layout(text: str) -> bool:
    """Whether a text is meant as a Megatron layout: one has bars, or an embedding and a loss."""
    return "|" in text or re.fullmatch(r"E.*L", text) is not None


def _rule_or_layout(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is not {', '.join(RULES)}, a list of layers per stage, or a Megatron layout")
    if value not in RULES and not is_layout(value):
        hint = did_you_mean(value, RULES) or ";"
        raise ValueError(
            f"{shown(value)} is not one of {', '.join(RULES)}{hint} or give layers per stage, as [20, 20, 20, 20], or "
            "a Megatron layout, as 'Et*3|(tt|)*29m|L'"
        )
    return value


Partition = Annotated[
    Annotated[str, BeforeValidator(_rule_or_layout), Tag("<one>")] | Annotated[list[Whole], Tag("<list>")],
    Discriminator(one_or_list),
]

"""The language of where: what holds, and what isn't a condition."""

from __future__ import annotations

from typing import Any

import pytest

from ppsim.config.condition import Condition

VALUES: dict[str, Any] = {
    "ranks": 4, "microbatches": 8, "schedule": "gpipe", "costs.message": "10 MB", "barrier": True, "unset": None,
    "speed": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("microbatches >= ranks", True),
        ("microbatches < ranks", False),
        ("microbatches % ranks == 0 and ranks * 2 == microbatches", True),
        ("1 < ranks <= 4 < microbatches", True),
        ("not (schedule == 'gpipe') or ranks == 4", True),
        ("schedule in ['1f1b', 'gpipe']", True),
        ("schedule not in ('1f1b', 'gpipe')", False),
        # Units are compared as what they are: 10 MB = 10 000 000 B, 9.6 MiB is more, 9.5 MiB less than that.
        ("costs.message < '9.6 MiB' and costs.message > '9.5 MiB'", True),
        ("costs.message == '10000000 B'", True),
        # A tenth is a tenth: as binary numbers 0.1 * 3 is not 0.3.
        ("speed * 3 == 0.3", True),
        ("ranks / 8 == 0.5", True),
        ("-ranks + 5 == 1", True),
        ("ranks // 3 == 1", True),
        ("barrier == True", True),
        ("unset == 3", False),
    ],
)
def test_what_holds(text: str, holds: bool) -> None:
    assert Condition(text).holds(VALUES.__getitem__) is holds


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "ranks if ranks else 2",
        "ranks := 3",
        "ranks[0]",
        "f'{ranks}'",
        "2 ** 9999999",
        "ranks << 99",
        "max(ranks, 2)",
        "'a'.join",
        "b'x' == 1",
        "...",
        "ranks >=",
        "import os",
        "",
        "(" * 400 + "1" + ")" * 99,
        "1 + " * 600 + "1",
    ],
)
def test_what_is_no_condition(text: str) -> None:
    """Nothing is called, nothing is built; the error quotes what can't stand there."""
    with pytest.raises(ValueError, match=r"condition|name of a setting"):
        Condition(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ranks < schedule", "ranks is 4, schedule is 'gpipe'"),
        ("unset > 1", "unset is an empty value"),
        ("ranks % (ranks - 4) == 0", "divides by zero"),
        ("schedule * 1000000000 == 1", "can't be decided"),
    ],
)
def test_what_cant_be_decided(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="can't be decided") as error:
        Condition(text).holds(VALUES.__getitem__)
    assert words in str(error.value)


def test_names_in_order() -> None:
    assert Condition("pipeline.ranks > 2 and m in [a, 3]").names == ["pipeline.ranks", "m", "a"]

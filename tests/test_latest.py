"""What neighbouring cases share: made once, and forgotten in the order in which it was made."""

from __future__ import annotations

from ppsim._latest import Latest


def test_each_value_is_made_once_while_it_is_kept() -> None:
    """Of two that are kept, the third pushes out the first: that one is made again, and pushes out the second."""
    made: list[str] = []
    latest: Latest[str] = Latest(2)

    def of(key: str) -> str:
        return latest.of(key, lambda: made.append(key) or key.upper())  # type: ignore[func-returns-value]

    assert [of(key) for key in "ababcab"] == list("ABABCAB")
    assert made == list("abcab")

"""The texts of a Chrome trace's events: JSON with keys in a fixed order, ASCII only, times in µs to three places."""

from __future__ import annotations

import json


def text_of(value: object) -> str:
    """Any value as JSON."""
    return json.dumps(value, separators=(",", ":"))


def micros(ns: int) -> str:
    """Nanoseconds as µs, exactly."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def span(name: str, sort: str, track: str, start: int, end: int, args: dict[str, object], wait: int) -> str:
    """A span from ``start`` to ``end`` in ns; ``wait`` is what its track stood still before it."""
    shown = text_of(args)[:-1]
    return (
        f'{{"ph":"X","name":{text_of(name)},"cat":"{sort}",{track},"ts":{micros(start)},"dur":{micros(end - start)},'
        f'"args":{shown},"wait_us":{micros(wait)}}}}}'
    )


def flow(begins: bool, number: int, track: str, time: int) -> str:
    """One end of a flow, in the span that is open on its track."""
    kind = '"ph":"s"' if begins else '"ph":"f","bp":"e"'
    return f'{{{kind},"id":{number},"name":"message","cat":"message",{track},"ts":{micros(time)}}}'


def counter(name: str, pid: int, time: int, values: dict[str, int]) -> str:
    """The values of a process's counters from ``time`` on."""
    return f'{{"ph":"C","name":{text_of(name)},"pid":{pid},"ts":{micros(time)},"args":{text_of(values)}}}'

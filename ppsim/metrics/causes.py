"""Why ranks are idle: the causes, one of which every idle nanosecond has."""

from __future__ import annotations

from enum import IntEnum


class Cause(IntEnum):
    """Why a rank is idle; the names in lower case are the keys of ``waits_s``."""

    FILL = 0
    DRAIN = 1
    UPSTREAM = 2
    TRANSFER = 3
    QUEUE = 4
    BLOCKED = 5
    MEMORY = 6
    SYNC = 7


CAUSES = tuple(cause.name.lower() for cause in Cause)

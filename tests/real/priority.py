"""Priority over whatever else the machine does, where that is permitted."""

from __future__ import annotations

import os
from contextlib import suppress


def to_wake_up_in_time() -> None:
    """For a process that sleeps nearly all the time, and for the threads that it starts from now on."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))

"""The time, as everything in work/ asks for it: whole milliseconds since 1970, from a function that tests may turn."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def wall_clock() -> int:
    """The machine's time in milliseconds."""
    return time.time_ns() // 1_000_000

"""The time of work queues, as tests have it."""

import time

_DAY_MS = 24 * 3600 * 1000


class Clock:
    """Real time, plus what a test has turned it by."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def turn(self, s: float = 0, *, minutes: float = 0) -> None:
        self.ahead_ms += int((s + 60 * minutes) * 1000)

    def pass_midnight(self) -> None:
        """To the next day when this one is nearly over: some agents do more on a new day, and a test that counts what they do
        must not fail in the evening. Not for tests with other processes, whose time is the real one."""
        left_ms = _DAY_MS - self() % _DAY_MS
        if left_ms < _DAY_MS // 4:
            self.ahead_ms += left_ms + _DAY_MS // 48

"""The time of an office, as tests have it."""

import time


class Clock:
    """Real time, plus what a test has turned it by."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def turn(self, s: float = 0, *, minutes: float = 0) -> None:
        self.ahead_ms += int((s + 60 * minutes) * 1000)

"""Ends runs that take too long. A sweep over what runs, not a timer for each job: timers cost more than most handlers."""

from __future__ import annotations

import time

from relevo.engine.consuming.runner import Runner
from relevo.engine.service.loop import Loop
from relevo.engine.service.signals import Signal


class TimeoutSweep(Loop):
    """Fails every run older than `timeout_s`, a tenth of that late at most."""

    def __init__(self, runner: Runner, *, timeout_s: float) -> None:
        super().__init__("timeouts", every=min(max(timeout_s / 10, 0.01), 1.0))
        self.expired: Signal[int] = Signal()
        self._runner = runner
        self._timeout_s = timeout_s

    async def tick(self) -> float | None:
        ended = self._runner.expire(time.perf_counter() - self._timeout_s, self._timeout_s)
        if ended:
            self.expired.emit(ended)
        return None

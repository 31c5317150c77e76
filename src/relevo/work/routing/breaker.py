"""A circuit breaker for each rule: one that fails or loops too often is set aside for a while, and everybody can see it."""

from __future__ import annotations

import msgspec

from relevo.contract.rules import BreakerState


class Breaker(msgspec.Struct, kw_only=True):
    """Counts within a window; opens at `limit` failures; lets one try through after `rest_ms`. Pure: the clock is handed in.

    >>> breaker = Breaker(limit=2, window_ms=1000, rest_ms=5000)
    >>> breaker.failed(0, "no such queue"), breaker.failed(10, "no such queue")
    (False, True)
    >>> breaker.allows(20), breaker.state(6000), breaker.allows(6000), breaker.allows(6001)
    (False, 'half_open', True, False)
    >>> breaker.succeeded(6002)
    >>> breaker.state(6003)
    'closed'
    """

    limit: int = 10
    window_ms: int = 60_000
    rest_ms: int = 60_000
    failures: int = 0
    window_from: int = 0
    opened_at: int | None = None
    trying: bool = False
    last_error: str | None = None

    def state(self, now_ms: int) -> BreakerState:
        if self.opened_at is None:
            return "closed"
        return "half_open" if now_ms >= self.opened_at + self.rest_ms else "open"

    def allows(self, now_ms: int) -> bool:
        """Whether the rule may be tried now; half open, only the first to ask may."""
        state = self.state(now_ms)
        if state == "half_open" and not self.trying:
            self.trying = True
            return True
        return state == "closed"

    def failed(self, now_ms: int, error: str) -> bool:
        """Notes a failure; true when this one opened it."""
        self.last_error = error
        if self.opened_at is not None:
            reopened = self.trying
            self.trying, self.opened_at = False, now_ms
            return reopened
        if now_ms - self.window_from >= self.window_ms:
            self.window_from, self.failures = now_ms, 0
        self.failures += 1
        if self.failures < self.limit:
            return False
        self.opened_at = now_ms
        return True

    def succeeded(self, now_ms: int) -> None:
        if self.opened_at is not None and self.state(now_ms) != "closed":
            self.opened_at, self.failures, self.window_from = None, 0, now_ms
        self.trying = False

    def reset(self) -> None:
        """Closes it by hand."""
        self.opened_at, self.failures, self.trying, self.last_error = None, 0, False, None

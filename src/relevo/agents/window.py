"""Where an agent that follows the clock begins to look: where its last look ended, and now and then at the very beginning.

Rows that were looked at and left alone (a dead letter with an old ttl) stay in the index of their time for ever. Walking over
them every minute would cost more the longer an installation lives; leaving them out for ever would miss those that came back
(a claim that outlived its message's ttl).
"""

from __future__ import annotations

_MARGIN_MS = 600_000
"""Transactions commit later than the time they write, and clocks differ."""


class Window:
    """The part of time to look at.

    >>> window = Window(whole_every_ms=3_600_000)
    >>> window.since(1_000_000), window.since(1_060_000)
    (0, 0)
    >>> window.seen(1_060_000)
    >>> window.since(1_120_000), window.since(9_000_000)
    (460000, 0)
    """

    def __init__(self, *, whole_every_ms: int) -> None:
        self._whole_every_ms = whole_every_ms
        self._seen_until = 0
        self._whole_at: int | None = None
        self._whole = True

    def since(self, now: int) -> int:
        """Where the look begins."""
        self._whole = self._whole_at is None or not 0 <= now - self._whole_at < self._whole_every_ms
        return 0 if self._whole else max(0, self._seen_until - _MARGIN_MS)

    def seen(self, until: int) -> None:
        """Everything until then was looked at."""
        if self._whole:
            self._whole_at = until
        self._seen_until = until

"""What the hot path asks of the database at every request, remembered for a second: a queue's schema, a scope's rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")
Other = TypeVar("Other")


class SingleFlightCache(Generic[Key, Found]):
    """Looks things up and keeps them for `kept_ms`. A hundred requests that come when it is over share one look; a look that
    began before a change is neither shared with those who ask after it, nor kept.

    >>> async def story() -> tuple[int, int]:
    ...     looks: list[str] = []
    ...
    ...     async def look(key: str) -> int:
    ...         looks.append(key)
    ...         return len(looks)
    ...
    ...     remembered = SingleFlightCache(look, now_ms=lambda: 0, kept_ms=1000)
    ...     first, second = await asyncio.gather(remembered.of("a"), remembered.of("a"))
    ...     remembered.forget("a")
    ...     return first + second, await remembered.of("a")
    >>> asyncio.run(story())
    (2, 2)
    """

    def __init__(self, look: Callable[[Key], Awaitable[Found]], *, now_ms: Callable[[], int], kept_ms: int) -> None:
        self._look = look
        self._now_ms = now_ms
        self._kept_ms = kept_ms
        self._known: dict[Key, tuple[int, Found]] = {}
        self._looks: dict[Key, asyncio.Future[Found]] = {}

    def peek(self, key: Key, otherwise: Other) -> Found | Other:
        """What is known of it, without looking."""
        known = self._known.get(key)
        return known[1] if known is not None and self._now_ms() < known[0] else otherwise

    async def of(self, key: Key) -> Found:
        """What is so now, or was less than `kept_ms` ago. Raises what the look raises; that is not kept."""
        known = self._known.get(key)
        if known is not None and self._now_ms() < known[0]:
            return known[1]
        look = self._looks.get(key)
        if look is None:
            look = self._looks[key] = asyncio.ensure_future(self._look(key))
            look.add_done_callback(lambda done: self._looked(key, done))
        return await asyncio.shield(look)

    def forget(self, key: Key) -> None:
        """It has changed."""
        self._known.pop(key, None)
        self._looks.pop(key, None)

    def forget_all(self) -> None:
        self._known.clear()
        self._looks.clear()

    def _looked(self, key: Key, look: asyncio.Future[Found]) -> None:
        mine = self._looks.get(key) is look
        if mine:
            del self._looks[key]
        if not look.cancelled() and look.exception() is None and mine:  # an error is for whoever waits, if anybody does
            self._known[key] = (self._now_ms() + self._kept_ms, look.result())

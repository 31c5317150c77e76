"""What the hot path asks of the database at every request: asked once by many, and remembered for a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")
Other = TypeVar("Other")


class SingleFlight(Generic[Key, Found]):
    """Looks things up. Whoever asks while a look for the same is under way shares it; a look that is dropped is finished for
    those who wait for it, and shared with nobody who asks afterwards."""

    def __init__(self, look: Callable[[Key], Coroutine[Any, Any, Found]]) -> None:
        self._look = look
        self._looks: dict[Key, asyncio.Task[Found]] = {}

    async def of(self, key: Key) -> Found:
        look = self._looks.get(key)
        if look is None:
            look = self._looks[key] = asyncio.create_task(self._look(key))
            look.add_done_callback(lambda done: self._looked(key, done))
        return await asyncio.shield(look)

    def drop(self, key: Key) -> None:
        self._looks.pop(key, None)

    def drop_all(self) -> None:
        self._looks.clear()

    def _looked(self, key: Key, look: asyncio.Task[Found]) -> None:
        if self._looks.get(key) is look:
            del self._looks[key]
        if not look.cancelled():
            look.exception()  # whoever waits gets it; if nobody does any more, that is no news


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

    def __init__(
        self, look: Callable[[Key], Coroutine[Any, Any, Found]], *, now_ms: Callable[[], int], kept_ms: int
    ) -> None:
        self._look = look
        self._now_ms = now_ms
        self._kept_ms = kept_ms
        self._known: dict[Key, tuple[int, Found]] = {}
        self._looks = SingleFlight(self._looked)
        self._changes = 0

    def peek(self, key: Key, otherwise: Other) -> Found | Other:
        """What is known of it, without looking."""
        known = self._known.get(key)
        return known[1] if known is not None and self._now_ms() < known[0] else otherwise

    async def of(self, key: Key) -> Found:
        """What is so now, or was less than `kept_ms` ago. Raises what the look raises; that is not kept."""
        known = self._known.get(key)
        if known is not None and self._now_ms() < known[0]:
            return known[1]
        return await self._looks.of(key)

    def forget(self, key: Key) -> None:
        """It has changed."""
        self._changes += 1
        self._known.pop(key, None)
        self._looks.drop(key)

    def forget_all(self) -> None:
        self._changes += 1
        self._known.clear()
        self._looks.drop_all()

    async def _looked(self, key: Key) -> Found:
        changes = self._changes
        found = await self._look(key)
        if changes == self._changes:  # else it may be what was there before the change
            self._known[key] = (self._now_ms() + self._kept_ms, found)
        return found

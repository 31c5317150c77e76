"""The pause of a whole queue: a key that all its workers look at."""

from __future__ import annotations

from relevo.broker.link import Link
from relevo.wire.keys import QueueKeys


class QueuePause:
    """The pause of a whole queue: a key that stands until someone resumes. ChasquiMQ's newer workers obey the same key."""

    def __init__(self, link: Link, keys: QueueKeys) -> None:
        self._link = link
        self._keys = keys

    async def pause(self) -> None:
        await self._link.call("SET", self._keys.paused, "1")

    async def resume(self) -> None:
        await self._link.call("DEL", self._keys.paused)

    async def is_paused(self) -> bool:
        return await self._link.call("EXISTS", self._keys.paused) == 1

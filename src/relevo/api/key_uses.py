"""Writes down when keys were last used: every few seconds, because a write with every request would double its price."""

from __future__ import annotations

from relevo.engine.service.loop import Loop
from relevo.work.access.api_keys import Keys


class KeyUses(Loop):
    """The duty of every process that answers requests."""

    def __init__(self, keys: Keys, *, every: float = 10.0) -> None:
        super().__init__("key-uses", every=every)
        self._keys = keys

    async def tick(self) -> float | None:
        await self._keys.note_uses()
        return None

    async def finish(self) -> None:
        await self._keys.note_uses()

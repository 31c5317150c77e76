"""The jobs that wait in lanes, lane by lane, as the tail of a listing of waiting jobs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from typing import Final

from relevo.broker.link import Link
from relevo.broker.resp import Reply, pairs
from relevo.errors import BadArgument
from relevo.wire.keys import QueueKeys

_STEP = 100


class LanePage:
    """Walks through the lanes in the order of their names, each from its head, behind `cursor`."""

    MARK: Final = "lane:"

    def __init__(self, link: Link, keys: QueueKeys, cursor: str | None) -> None:
        self._link = link
        self._keys = keys
        self._lane: bytes
        self._at: int
        self._lane, self._at = (b"", 0) if cursor is None else _place(cursor)

    @property
    def cursor(self) -> str:
        """Leads to the job that was yielded last."""
        return f"{self.MARK}{self._at}:{base64.urlsafe_b64encode(self._lane).decode()}"

    async def members(self, skip: int) -> AsyncIterator[bytes]:
        """Jobs as in the delayed set, without the first `skip`."""
        sizes = pairs(await self._link.call("HGETALL", self._keys.lane_sizes))
        for lane, size in sorted(sizes.items()):
            if not lane or lane < self._lane:
                continue
            if lane != self._lane:
                self._lane, self._at = lane, 0
            passed = min(skip, max(0, int(size) - self._at))
            skip, self._at = skip - passed, self._at + passed
            while members := await self._some():
                for member in members:
                    yield member
                    self._at += 1

    async def _some(self) -> list[bytes]:
        found: Reply = await self._link.call(
            "LRANGE", self._keys.lane(self._lane.decode()), self._at, self._at + _STEP - 1
        )
        return found


def _place(cursor: str) -> tuple[bytes, int]:
    _, at, lane = (*cursor.split(":"), "", "")[:3]
    try:
        return base64.b64decode(lane, altchars=b"-_", validate=True), int(at)
    except (ValueError, binascii.Error):
        remedy = "Pass the `cursor` of the page of waiting jobs before, or None for the first."
        raise BadArgument(
            argument="cursor", value=cursor, reason="not a cursor of waiting jobs", remedy=remedy
        ) from None

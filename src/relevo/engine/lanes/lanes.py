"""Lanes: jobs that share a key take turns with other keys, in their own order and within their own limits.

A job added with `lane="tenant-7"` waits in that lane until its turn, so one tenant's million jobs never hold up another's
three. A lane may be limited: so many jobs at once (1 is a strict sequence), so many in a time. From its turn on the job is an
ordinary entry of the stream; any worker runs it, a relevo worker frees its place.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple

from relevo.arguments import instance, positive
from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.broker.scripts import script
from relevo.errors import BadArgument
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import ALL_LANES, checked_lane

log = logging.getLogger("relevo.lanes")

LIMIT_LANE = script("limit_lane", __name__)

WINDOW = 256
"""How many laned jobs may wait in the stream: enough to keep workers busy, few enough that turns mean something."""


@dataclass(frozen=True)
class LaneLimit:
    """What one lane may do: `concurrency` jobs at once (0: any number), at most `rate` turns within any `per_ms`.

    With a `burst` the rate is an average: unused turns add up, and up to `burst` of them may be taken at once.

    >>> LaneLimit.parse(LaneLimit(concurrency=2, rate=10, per_ms=60_000).text)
    LaneLimit(concurrency=2, rate=10, per_ms=60000, burst=0)
    """

    concurrency: int = 0
    rate: int = 0
    per_ms: int = 1000
    burst: int = 0

    def __post_init__(self) -> None:
        positive("concurrency", self.concurrency, zero=True)
        positive("rate", self.rate, zero=True)
        positive("per_ms", self.per_ms)
        positive("burst", self.burst, zero=True)
        if self.burst and not self.rate:
            reason, remedy = "there is no rate to exceed", "Pass a `rate` as well, or leave it out."
            raise BadArgument(argument="burst", value=self.burst, reason=reason, remedy=remedy)
        if not self.concurrency and not self.rate:
            remedy = "Pass a concurrency or a rate of 1 or more, or remove the limit with `Lanes.unlimit`."
            raise BadArgument(argument="limit", value="0", reason="it limits nothing", remedy=remedy)

    @property
    def text(self) -> str:
        return f"{self.concurrency},{self.rate},{self.per_ms}" + (f",{self.burst}" if self.burst else "")

    @staticmethod
    def parse(text: str) -> LaneLimit:
        return LaneLimit(*map(int, text.split(",")))


class LaneState(NamedTuple):
    """One lane: jobs that wait for their turn, jobs on their way or running, and its limit."""

    lane: str
    waiting: int
    flying: int
    limit: LaneLimit | None


class Lanes:
    """The lanes of one queue and their limits. Limits are data: every process sees a change at once."""

    def __init__(self, link: Link, keys: QueueKeys) -> None:
        self._link = link
        self._keys = keys

    async def limit(self, lane: str, limit: LaneLimit) -> None:
        """Limits one lane, or with `"*"` every lane that has no limit of its own."""
        instance("limit", limit, LaneLimit, remedy="Pass LaneLimit(concurrency=...) or LaneLimit(rate=...).")
        await self._change(lane, limit.text)

    async def unlimit(self, lane: str) -> bool:
        """Removes a limit; False when there was none."""
        return await self._change(lane, "") == 1

    async def _change(self, lane: str, text: str) -> Reply:
        name = checked_lane(lane, all_allowed=True)
        return await self._link.run(LIMIT_LANE, [self._keys.lane_limits], self._keys.tag, name, text)

    async def waiting(self) -> dict[str, int]:
        """How many jobs wait for their turn, by lane."""
        flat: Reply = await self._link.call("HGETALL", self._keys.lane_sizes)
        return {flat[at].decode(): int(flat[at + 1]) for at in range(0, len(flat), 2) if flat[at]}

    async def limits(self) -> dict[str, LaneLimit]:
        flat: Reply = await self._link.call("HGETALL", self._keys.lane_limits)
        return {flat[at].decode(): LaneLimit.parse(flat[at + 1].decode()) for at in range(0, len(flat), 2)}

    async def state(self, lane: str) -> LaneState:
        checked_lane(lane, all_allowed=True)
        waiting: Reply = await self._link.call("LLEN", self._keys.lane(lane))
        flying: Reply = await self._link.call("SCARD", self._keys.flying(lane))
        limits = await self.limits()
        return LaneState(lane, waiting, flying, limits.get(lane, limits.get(ALL_LANES)))

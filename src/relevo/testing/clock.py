"""A clock that tests can turn: delayed jobs, retries and schedules become due without waiting for them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from relevo.broker.resp import Argument, Reply
from relevo.broker.scripts import script
from relevo.engine.queue import Queue
from relevo.engine.schedules.timetable import MOST_FIRES, Timetable, fire_id
from relevo.errors import BadArgument
from relevo.testing.inside import Inside, inside
from relevo.wire.delayed import DelayedMember
from relevo.wire.delays import aware
from relevo.wire.envelope import Envelope
from relevo.wire.repeat import RepeatSpec

TURN_CLOCK = script("turn_clock", __name__)


class Clock:
    """The time of one queue, which only goes forward.

        clock = Clock(queue)
        await queue.add("reminder", {}, delay=timedelta(days=3))
        await clock.turn(timedelta(days=3))      # now it is due

    Whether something is due is decided by the server's clock, which nobody can turn. So the queue is moved instead: what waits
    for a time (delayed jobs, retries, parked lanes) comes that much closer to it, what expires (results, ids that were added
    once, throttles) is that much closer to its end, and every fire of a schedule on the way is made, by the timetable and the
    time zone of the schedule, as a scheduler that lived through that time would have. `now` tells what time it is for
    the queue. Rate limits and the leases of running jobs keep to real time, and so do absolute times that you pass
    after turning: write delays.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._ahead_ms = 0

    def now(self) -> datetime:
        """The time of the queue, in UTC."""
        return datetime.fromtimestamp((time.time_ns() // 1_000_000 + self._ahead_ms) / 1000, UTC)

    async def turn(self, by: timedelta | float) -> int:
        """Turns the clock by a timedelta or by seconds; returns how many jobs the schedules on the way have made."""
        ms = int((by.total_seconds() if isinstance(by, timedelta) else by) * 1000)
        if ms < 0:
            raise BadArgument(argument="by", value=by, reason="time goes forward", remedy="Make another queue.")
        async with inside(self._queue, (TURN_CLOCK,)) as within:
            return await self._turn(within, ms)

    async def turn_to(self, moment: datetime) -> int:
        """Turns the clock to a moment, which needs a time zone."""
        return await self.turn(aware("moment", moment) - self.now())

    async def turn_to_next(self) -> bool:
        """Turns the clock to when the next delayed job or retry is due; False when there is none."""
        async with inside(self._queue, (TURN_CLOCK,)) as within:
            first: Reply = await within.link.call("ZRANGE", within.keys.delayed, 0, 0, "WITHSCORES")
            if not first:
                return False
            await self._turn(within, max(0, int(float(first[1])) - await within.time_ms()))
            return True

    async def _turn(self, within: Inside, ms: int) -> int:
        keys = within.keys
        expiring: list[bytes] = []
        for prefix in (keys.dedup(""), keys.once(""), keys.member_of(""), keys.result("")):
            expiring += await within.keys_from(prefix)
        schedules = await self._schedules(within, ms)
        places = [keys.delayed, keys.lanes_later, keys.repeat, *expiring]
        arguments: list[Argument] = [ms, keys.tag, len(schedules)]
        for schedule in schedules:
            arguments += schedule
        fired: Reply = await within.link.run(TURN_CLOCK, places, *arguments)
        self._ahead_ms += ms
        return fired

    async def _schedules(self, within: Inside, ms: int) -> list[list[Argument]]:
        """What becomes of each schedule while the clock is turned, as arguments of the script."""
        keys, now_ms = within.keys, await within.time_ms()
        flat: Reply = await within.link.call("ZRANGE", keys.repeat, 0, -1, "WITHSCORES")
        plans: list[list[Argument]] = []
        for at in range(0, len(flat), 2):
            key, score = flat[at], int(float(flat[at + 1]))
            stored, fired = await within.link.call("HMGET", keys.repeat_spec("") + key, "spec", "fired")
            plans.append(self._plan(key, score, RepeatSpec.decode(stored), int(fired or 0), now_ms, ms))
        return plans

    def _plan(self, key: bytes, score: int, spec: RepeatSpec, fired: int, now_ms: int, ms: int) -> list[Argument]:
        timetable = Timetable.of(spec)
        # Scores are in real time, fires in the time of the queue: the two differ by how far the clock was turned before.
        fire: int | None = score + self._ahead_ms
        target = now_ms + self._ahead_ms + ms
        fires: list[int] = []
        while fire is not None and fire <= target:
            due = timetable.due_fires(fire_at_ms=fire, now_ms=fire, fired=fired + len(fires))
            fires += due.fires
            fire = due.next_ms
            if len(fires) > MOST_FIRES:
                reason = f"the schedule {spec.key!r} would fire more than {MOST_FIRES} times"
                raise BadArgument(argument="by", value=f"{ms} ms", reason=reason, remedy="Turn it in smaller steps.")
        ahead = self._ahead_ms + ms
        plan: list[Argument] = [key, score, "" if fire is None else fire - ahead, len(fires)]
        for each in fires:
            envelope = Envelope(fire_id(spec.key, each), spec.payload, now_ms, 0, spec.retry)
            plan += (each - ahead, DelayedMember(spec.job_name, envelope.encode()).encode())
        return plan

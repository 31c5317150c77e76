"""Which fires of a schedule are made now, and when the next one is due. Pure arithmetic: no clock, no Redis.

A fire is an instant that a schedule names. It belongs to the schedule, not to the scheduler: whoever looks at it, whenever,
gives its job the same id (`fire_id`), so that a fire enqueued twice is one job.

A scheduler looks at a schedule every tick, with the fire that is due first (its score) and the time. All fires up to
now are due, and one rule decides which of them are made:

- Nothing was missed when the first due fire is no later than the grace, or is the only one due: every due fire is made.
  The grace outlasts a tick and the hand-over from a dead leader, so a short interval, a slow tick or a lost leader
  costs no fire under any policy. A fire that nothing has followed yet is late, not missed.
- Otherwise schedulers were away, and the policy decides. Skip: only the latest due fire is made, and only within the
  grace. FireOnce: the first due fire is made and stands for all. FireAll: the latest `max_catchup` are made, oldest first.

Then the schedule goes on with the first fire after now, in the same row: an interval keeps its anchor however late its
fires are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from relevo.engine.schedules.cron import Cron
from relevo.errors import BadArgument, BadInterval, NeverFires
from relevo.wire.repeat import CronPattern, FireAll, MissedFires, Pattern, RepeatSpec

MOST_FIRES = 10_000
"""How many fires one tick makes at most, whatever `max_catchup` allows."""

GRACE_MS = 7_000
"""The default grace: the leader lock's five seconds and two ticks of one."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_cron = lru_cache(maxsize=1024)(Cron)  # thousands of schedules share a few expressions, and a Cron never changes


def fire_id(key: str, fire_at_ms: int) -> str:
    """The job id of one fire: a ULID whose time is the fire and whose other bits are the schedule's key, hashed.

    >>> fire_id("ping::every:60000", 1_800_000_000_000)
    '01MCC5RM00D9579V45SBAJT0KR'
    """
    tail = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=10).digest())
    bits = (fire_at_ms & 0xFFFF_FFFF_FFFF) << 80 | tail
    return "".join(_ALPHABET[bits >> shift & 31] for shift in range(125, -5, -5))


class Recurrence(Protocol):
    """The endless row of fires that a pattern means, without limit, start or end."""

    def first_after(self, ms: int) -> int | None:
        """The first fire of a schedule that starts at `ms`."""
        ...

    def next_after(self, fire: int, ms: int) -> int | None:
        """The first fire after `ms` in the row that `fire` belongs to."""
        ...

    def latest(self, fire: int, ms: int, count: int) -> list[int]:
        """The latest `count` fires from `fire` to `ms`, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Interval:
    """Fires one interval apart, counted from the fire before and never from the clock.

    >>> Interval(200).latest(1_000, 2_050, count=3)
    [1600, 1800, 2000]
    """

    ms: int

    def first_after(self, ms: int) -> int:
        return ms + self.ms

    def next_after(self, fire: int, ms: int) -> int:
        return fire + max((ms - fire) // self.ms + 1, 1) * self.ms

    def latest(self, fire: int, ms: int, count: int) -> list[int]:
        due = (ms - fire) // self.ms + 1
        return [fire + n * self.ms for n in range(max(due - count, 0), due)]


@dataclass(frozen=True, slots=True)
class Calendar:
    """Fires at the times of a cron expression.

    >>> Calendar(Cron("* * * * *")).latest(60_000, 7 * 60_000 + 5, count=2)
    [360000, 420000]
    """

    cron: Cron

    def first_after(self, ms: int) -> int | None:
        return self.cron.next_after(ms)

    def next_after(self, fire: int, ms: int) -> int | None:
        return self.cron.next_after(max(fire, ms))

    def latest(self, fire: int, ms: int, count: int) -> list[int]:
        if count < 1:
            return []
        # Forward from the first due fire costs a step a fire, backwards from the end some twenty steps a fire wanted.
        fires = [fire]
        for _ in range(max(count, 20 * min(count, 1_000))):
            following = self.cron.next_after(fires[-1])
            if following is None or following > ms:
                return fires[-count:]
            fires.append(following)
        return self._backwards(ms, count)

    def _backwards(self, ms: int, count: int) -> list[int]:
        """The last `count` fires until `ms`; the caller knows that there are as many."""
        fires: list[int] = []
        while len(fires) < count:
            fires.append(self._last_until(ms))
            ms = fires[-1] - 1
        return fires[::-1]

    def _last_until(self, ms: int) -> int:
        """The last fire until `ms`: look back further and further for any, then halve what may hold a later one."""
        reach = 1_000
        while (fire := self.cron.next_after(ms - reach)) is None or fire > ms:
            reach *= 2
        empty_from = ms
        while empty_from - fire >= 1_000:  # fires are whole seconds
            middle = (fire + empty_from) // 2
            later = self.cron.next_after(middle)
            if later is not None and later <= ms:
                fire = later
            else:
                empty_from = middle
        return fire


@dataclass(frozen=True, slots=True)
class DueFires:
    """What a tick does with one schedule: the fires to make, oldest first, and the next score; None removes it."""

    fires: tuple[int, ...]
    next_ms: int | None
    missed: bool = False
    """Fires were dropped, or stood for by others: worth a line in the log."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """A schedule's fires with its limit, start, end and policy.

    >>> from relevo.wire.repeat import EveryPattern
    >>> spec = RepeatSpec("ping::every:60000", "ping", EveryPattern(60_000), b"\\xc0", limit=2)
    >>> timetable = Timetable.of(spec)
    >>> timetable.first_fire(now_ms=1_000)
    61000
    >>> timetable.due_fires(fire_at_ms=61_000, now_ms=61_400, fired=0)
    DueFires(fires=(61000,), next_ms=121000, missed=False)
    >>> timetable.due_fires(fire_at_ms=121_000, now_ms=121_400, fired=1)
    DueFires(fires=(121000,), next_ms=None, missed=False)
    """

    key: str
    recurrence: Recurrence
    limit: int | None = None
    start_after_ms: int | None = None
    end_before_ms: int | None = None
    missed_fires: MissedFires = "Skip"

    @staticmethod
    def of(spec: RepeatSpec) -> Timetable:
        """The timetable of a schedule, or `BadCron`, `UnknownZone`, `BadInterval`, `BadArgument`."""
        for argument in ("limit", "start_after_ms", "end_before_ms"):
            value: int | None = getattr(spec, argument)
            if value is not None and value < 0:
                raise BadArgument(
                    argument=argument, value=value, reason="must not be negative", remedy="Pass 0 or more, or None."
                )
        return Timetable(
            spec.key, _recurrence(spec.pattern), spec.limit, spec.start_after_ms, spec.end_before_ms, spec.missed_fires
        )

    def first_fire(self, now_ms: int) -> int:
        """The score of a schedule that is made now, or `NeverFires`."""
        first = self.recurrence.first_after(max(now_ms, self.start_after_ms or 0))
        if first is None:
            remedy = "Write a year that is still to come."
            raise NeverFires(schedule=self.key, reason="its last fire is in the past", remedy=remedy)
        if self._over(first):
            reason = f"its first fire, {first}, is after end_before_ms={self.end_before_ms}"
            raise NeverFires(schedule=self.key, reason=reason, remedy="Move the end, or leave it out.")
        return first

    def due_fires(self, *, fire_at_ms: int, now_ms: int, fired: int, grace_ms: int = GRACE_MS) -> DueFires:
        """What to do now with a schedule whose score is `fire_at_ms` and that has fired `fired` times.

        `grace_ms` has to be longer than the leader lock lives and two ticks take.
        """
        left = self.limit - fired if self.limit else MOST_FIRES  # a limit of 0 is none
        if left <= 0 or self._over(fire_at_ms):
            return DueFires((), None)
        if fire_at_ms > now_ms:
            return DueFires((), fire_at_ms)
        if self.start_after_ms is not None and fire_at_ms <= self.start_after_ms:  # the start was moved behind it
            return DueFires((), self._unless_over(self.recurrence.first_after(max(now_ms, self.start_after_ms))))
        fires, missed = self._due(fire_at_ms, now_ms, grace_ms)
        fires = fires[:left]
        if self.limit and len(fires) == left:
            return DueFires(tuple(fires), None, missed)
        return DueFires(tuple(fires), self._unless_over(self.recurrence.next_after(fire_at_ms, now_ms)), missed)

    def _due(self, first: int, now: int, grace: int) -> tuple[list[int], bool]:
        """The fires to make, and whether others were missed."""
        until = now if self.end_before_ms is None else min(now, self.end_before_ms)
        second = self.recurrence.next_after(first, first)
        if second is None or second > now:
            return [first], False
        if now - first <= grace:
            due = self.recurrence.latest(first, until, MOST_FIRES)
            return due, due[0] > first
        if self.missed_fires == "FireOnce":
            return [first], True
        if isinstance(self.missed_fires, FireAll):
            return self.recurrence.latest(first, until, min(max(self.missed_fires.max_catchup, 0), MOST_FIRES)), True
        latest = self.recurrence.latest(first, until, 1)
        return [fire for fire in latest if now - fire <= grace], True

    def _over(self, fire: int) -> bool:
        return self.end_before_ms is not None and fire > self.end_before_ms

    def _unless_over(self, fire: int | None) -> int | None:
        return None if fire is None or self._over(fire) else fire


def _recurrence(pattern: Pattern) -> Recurrence:
    if isinstance(pattern, CronPattern):
        return Calendar(_cron(pattern.expression, pattern.tz))
    if pattern.interval_ms < 1:
        raise BadInterval(value=pattern.interval_ms)
    return Interval(pattern.interval_ms)

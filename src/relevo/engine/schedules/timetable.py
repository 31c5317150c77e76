"""Which slots of a schedule fire now, and when the next one is due. Pure arithmetic: no clock, no Redis.

A slot is an instant a schedule names. It belongs to the schedule, not to the scheduler: whoever looks at it, whenever,
gives its job the same id (`slot_id`), so that a slot enqueued twice is one job.

A scheduler looks at a schedule every tick, with the slot that is due first (its score) and the time. All slots up to
now are due, and one rule decides which of them fire:

- Nothing was missed when the first due slot is no later than the grace, or is the only one due: every due slot fires.
  The grace outlasts a tick and the hand-over from a dead leader, so a short interval, a slow tick or a lost leader
  costs no slot under any policy. A slot that nothing has followed yet is late, not missed.
- Otherwise schedulers were away, and the policy decides. Skip: only the latest due slot fires, and only within the
  grace. FireOnce: the first due slot fires and stands for all. FireAll: the latest `max_catchup` fire, oldest first.

Then the schedule goes on with the first slot after now, on the same beat: an interval keeps its anchor however late its
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
"""How many slots one tick fires at most, whatever `max_catchup` allows."""

GRACE_MS = 7_000
"""The default grace: the leader lock's five seconds and two ticks of one."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_cron = lru_cache(maxsize=1024)(Cron)  # thousands of schedules share a few expressions, and a Cron never changes


def slot_id(key: str, fire_at_ms: int) -> str:
    """The job id of one slot: a ULID whose time is the slot and whose other bits are the schedule's key, hashed.

    >>> slot_id("ping::every:60000", 1_800_000_000_000)
    '01MCC5RM00D9579V45SBAJT0KR'
    """
    tail = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=10).digest())
    bits = (fire_at_ms & 0xFFFF_FFFF_FFFF) << 80 | tail
    return "".join(_ALPHABET[bits >> shift & 31] for shift in range(125, -5, -5))


class Beat(Protocol):
    """The endless row of slots that a pattern means, without limit, start or end."""

    def first_after(self, ms: int) -> int | None:
        """The first slot of a schedule that starts at `ms`."""
        ...

    def next_after(self, slot: int, ms: int) -> int | None:
        """The first slot after `ms` in the row that `slot` belongs to."""
        ...

    def latest(self, slot: int, ms: int, count: int) -> list[int]:
        """The latest `count` slots from `slot` to `ms`, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Interval:
    """Slots one interval apart, counted from the slot before and never from the clock.

    >>> Interval(200).latest(1_000, 2_050, count=3)
    [1600, 1800, 2000]
    """

    ms: int

    def first_after(self, ms: int) -> int:
        return ms + self.ms

    def next_after(self, slot: int, ms: int) -> int:
        return slot + max((ms - slot) // self.ms + 1, 1) * self.ms

    def latest(self, slot: int, ms: int, count: int) -> list[int]:
        due = (ms - slot) // self.ms + 1
        return [slot + n * self.ms for n in range(max(due - count, 0), due)]


@dataclass(frozen=True, slots=True)
class Calendar:
    """Slots at the times of a cron expression.

    >>> Calendar(Cron("* * * * *")).latest(60_000, 7 * 60_000 + 5, count=2)
    [360000, 420000]
    """

    cron: Cron

    def first_after(self, ms: int) -> int | None:
        return self.cron.next_after(ms)

    def next_after(self, slot: int, ms: int) -> int | None:
        return self.cron.next_after(max(slot, ms))

    def latest(self, slot: int, ms: int, count: int) -> list[int]:
        if count < 1:
            return []
        # Forward from the first due slot costs a step a slot, backwards from the end some twenty steps a slot wanted.
        slots = [slot]
        for _ in range(max(count, 20 * min(count, 1_000))):
            following = self.cron.next_after(slots[-1])
            if following is None or following > ms:
                return slots[-count:]
            slots.append(following)
        return self._backwards(ms, count)

    def _backwards(self, ms: int, count: int) -> list[int]:
        """The last `count` slots until `ms`; the caller knows that there are as many."""
        slots: list[int] = []
        while len(slots) < count:
            slots.append(self._last_until(ms))
            ms = slots[-1] - 1
        return slots[::-1]

    def _last_until(self, ms: int) -> int:
        """The last slot until `ms`: look back further and further for any, then halve what may hold a later one."""
        reach = 1_000
        while (slot := self.cron.next_after(ms - reach)) is None or slot > ms:
            reach *= 2
        empty_from = ms
        while empty_from - slot >= 1_000:  # slots are whole seconds
            middle = (slot + empty_from) // 2
            later = self.cron.next_after(middle)
            if later is not None and later <= ms:
                slot = later
            else:
                empty_from = middle
        return slot


@dataclass(frozen=True, slots=True)
class Turn:
    """What a tick does with one schedule: the slots to fire, oldest first, and the next score; None removes it."""

    fires: tuple[int, ...]
    next_ms: int | None
    missed: bool = False
    """Slots were dropped, or stood for by others: worth a line in the log."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """A schedule's slots with its limit, start, end and policy.

    >>> from relevo.wire.repeat import EveryPattern
    >>> spec = RepeatSpec("ping::every:60000", "ping", EveryPattern(60_000), b"\\xc0", limit=2)
    >>> timetable = Timetable.of(spec)
    >>> timetable.first_fire(now_ms=1_000)
    61000
    >>> timetable.turn(fire_at_ms=61_000, now_ms=61_400, fired=0)
    Turn(fires=(61000,), next_ms=121000, missed=False)
    >>> timetable.turn(fire_at_ms=121_000, now_ms=121_400, fired=1)
    Turn(fires=(121000,), next_ms=None, missed=False)
    """

    key: str
    beat: Beat
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
            spec.key, _beat(spec.pattern), spec.limit, spec.start_after_ms, spec.end_before_ms, spec.missed_fires
        )

    def first_fire(self, now_ms: int) -> int:
        """The score of a schedule that is made now, or `NeverFires`."""
        first = self.beat.first_after(max(now_ms, self.start_after_ms or 0))
        if first is None:
            remedy = "Write a year that is still to come."
            raise NeverFires(schedule=self.key, reason="its last slot is in the past", remedy=remedy)
        if self._over(first):
            reason = f"its first slot, {first}, is after end_before_ms={self.end_before_ms}"
            raise NeverFires(schedule=self.key, reason=reason, remedy="Move the end, or leave it out.")
        return first

    def turn(self, *, fire_at_ms: int, now_ms: int, fired: int, grace_ms: int = GRACE_MS) -> Turn:
        """What to do now with a schedule whose score is `fire_at_ms` and that has fired `fired` times.

        `grace_ms` has to be longer than the leader lock lives and two ticks take.
        """
        left = self.limit - fired if self.limit else MOST_FIRES  # a limit of 0 is none
        if left <= 0 or self._over(fire_at_ms):
            return Turn((), None)
        if fire_at_ms > now_ms:
            return Turn((), fire_at_ms)
        if self.start_after_ms is not None and fire_at_ms <= self.start_after_ms:  # the start was moved behind it
            return Turn((), self._unless_over(self.beat.first_after(max(now_ms, self.start_after_ms))))
        fires, missed = self._due(fire_at_ms, now_ms, grace_ms)
        fires = fires[:left]
        if self.limit and len(fires) == left:
            return Turn(tuple(fires), None, missed)
        return Turn(tuple(fires), self._unless_over(self.beat.next_after(fire_at_ms, now_ms)), missed)

    def _due(self, first: int, now: int, grace: int) -> tuple[list[int], bool]:
        """The slots to fire, and whether others were missed."""
        until = now if self.end_before_ms is None else min(now, self.end_before_ms)
        second = self.beat.next_after(first, first)
        if second is None or second > now:
            return [first], False
        if now - first <= grace:
            due = self.beat.latest(first, until, MOST_FIRES)
            return due, due[0] > first
        if self.missed_fires == "FireOnce":
            return [first], True
        if isinstance(self.missed_fires, FireAll):
            return self.beat.latest(first, until, min(max(self.missed_fires.max_catchup, 0), MOST_FIRES)), True
        latest = self.beat.latest(first, until, 1)
        return [slot for slot in latest if now - slot <= grace], True

    def _over(self, slot: int) -> bool:
        return self.end_before_ms is not None and slot > self.end_before_ms

    def _unless_over(self, slot: int | None) -> int | None:
        return None if slot is None or self._over(slot) else slot


def _beat(pattern: Pattern) -> Beat:
    if isinstance(pattern, CronPattern):
        return Calendar(_cron(pattern.expression, pattern.tz))
    if pattern.interval_ms < 1:
        raise BadInterval(value=pattern.interval_ms)
    return Interval(pattern.interval_ms)

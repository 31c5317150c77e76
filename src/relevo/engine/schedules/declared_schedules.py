"""Schedules that code declares (`@tasks.task(cron="…")`): made by the workers that run it, ended when they have left the code.

Every worker makes the schedules of its code when it starts, and says every 20 seconds that its code still has them. A schedule
that nobody has said that of for a minute has left the code, and is ended by whichever worker notices.

A rolling deploy runs two versions side by side. What only the old one declares stays until its last worker has gone, what only
the new one declares is left alone by the old, and where both declare one and differ, the worker that started last wins: nobody
writes a schedule again while it is there, so the two do not take turns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple, cast

from relevo.arguments import instance
from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.broker.scripts import script
from relevo.engine.schedules.patterns import MissedFiresPolicy, RepeatPattern
from relevo.engine.schedules.schedules import MissedFiresLike, Schedules
from relevo.engine.schedules.timetable import Timetable
from relevo.engine.service.loop import Loop
from relevo.engine.service.signals import Signal
from relevo.errors import BadArgument, NeverFires
from relevo.wire.keys import QueueKeys
from relevo.wire.repeat import RepeatSpec

log = logging.getLogger("relevo.schedules")

KEEP_DECLARED = script("keep_declared", __name__)


class Declaration(NamedTuple):
    """One schedule as code declares it.

    >>> Declaration.of("report", cron="0 9 * * *", tz="Europe/Madrid").key
    'task:report'
    """

    name: str
    pattern: RepeatPattern
    missed_fires: MissedFiresPolicy

    @property
    def key(self) -> str:
        """The schedule's key: the same while the task has its name, so that another time changes it in place."""
        return f"task:{self.name}"

    @staticmethod
    def of(
        name: str,
        *,
        cron: str | None = None,
        tz: str | None = None,
        every: timedelta | None = None,
        missed_fires: MissedFiresLike | None = None,
    ) -> Declaration | None:
        """What the arguments of `@tasks.task` declare, checked; None when they declare nothing."""
        if (cron is None) == (every is None):
            for argument, value in (("every", every), ("tz", tz), ("missed_fires", missed_fires)):
                if value is not None:
                    reason = "a task has one schedule" if cron is not None else "there is no schedule for it"
                    remedy = "Pass `cron` or `every`, one of them."
                    raise BadArgument(argument=argument, value=value, reason=reason, remedy=remedy)
            return None
        if every is not None and tz is not None:
            remedy = "Leave it out, or pass `cron`."
            raise BadArgument(argument="tz", value=tz, reason="an interval has no time zone", remedy=remedy)
        if cron is not None:
            instance("cron", cron, str, remedy='Pass "0 9 * * *" or the like.')
        if every is not None:
            instance("every", every, timedelta, remedy="Pass timedelta(minutes=5) or the like.")
        if every is None:
            pattern = RepeatPattern.cron(cast("str", cron), tz)
        else:
            pattern = RepeatPattern.every(every // timedelta(milliseconds=1))
        made = Declaration(name, pattern, MissedFiresPolicy.of(missed_fires))
        Timetable.of(RepeatSpec(made.key, name, pattern.to_wire(), b""))  # refuses what is no time, here and now
        return made


class KeptSchedules(NamedTuple):
    """One round: keys of the schedules made (again), and of those ended."""

    made: tuple[str, ...]
    ended: tuple[str, ...]


class DeclaredSchedules(Loop):
    """Makes the schedules that the worker's code declares, keeps them, and ends those that left the code."""

    def __init__(
        self,
        link: Link,
        keys: QueueKeys,
        declared: Callable[[], Sequence[Declaration]],
        *,
        every: float = 20.0,
        forget_after_s: float = 60.0,
    ) -> None:
        super().__init__("declared-schedules", every=every)
        self.kept: Signal[KeptSchedules] = Signal()
        self._link = link
        self._keys = keys
        self._declared = declared
        self._repeatables = Schedules(link, keys)
        self._forget_ms = int(forget_after_s * 1000)
        self._started = False
        self._over: set[str] = set()

    async def tick(self) -> float | None:
        await self._link.ready()
        declared = {each.key: each for each in self._declared()}
        made = [] if self._started else [key for key, each in declared.items() if await self._make(each)]
        self._started = True
        places = [self._keys.repeat_declared, self._keys.repeat, self._keys.repeat_paused]
        prefix = self._keys.repeat_spec("")
        reply: Reply = await self._link.run(KEEP_DECLARED, places, self._forget_ms, prefix, *declared)
        missing, ended = ([key.decode(errors="replace") for key in some] for some in reply)
        made += [key for key in missing if await self._make(declared[key])]
        if ended:
            log.warning("queue %s: ended schedules that left the code: %s", self._keys.queue, ", ".join(ended))
        self.kept.emit(KeptSchedules(tuple(made), tuple(ended)))
        return None

    async def _make(self, declaration: Declaration) -> bool:
        try:
            await self._repeatables.declare(
                declaration.name, key=declaration.key, repeat=declaration.pattern, missed_fires=declaration.missed_fires
            )
        except NeverFires as error:  # a year that has passed: no reason to stop the others
            if declaration.key not in self._over:
                self._over.add(declaration.key)
                log.warning("queue %s: %s", self._keys.queue, error)
            return False
        return True

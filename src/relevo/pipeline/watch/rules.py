"""When something is wrong: how long a job may wait and run, how long a queue may be silent, how fast its budget may burn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from relevo.errors import BadArgument
from relevo.pipeline.lake.gold.objectives import Objective

_FINEST_MS, _COARSEST_MS = 1_000, 60_000


@dataclass(frozen=True)
class TimeLimit:
    """How long something may last in the queues that a glob names."""

    queue: str
    ms: int

    @staticmethod
    def parse(option: str, text: str) -> TimeLimit:
        """QUEUE=SECONDS, as the command line writes it.

        >>> TimeLimit.parse("--stuck", "mail*=30")
        TimeLimit(queue='mail*', ms=30000)
        """
        found = re.fullmatch(r"(?P<queue>[^=]+)=(?P<seconds>\d+(\.\d+)?)s?", text.strip())
        if found is None or float(found["seconds"]) <= 0:
            remedy = "Write queue=seconds, such as 'emails=600'; the queue may be a glob."
            raise BadArgument(argument=option, value=text, reason="not of that form", remedy=remedy)
        return TimeLimit(found["queue"], round(float(found["seconds"]) * 1000))


@dataclass(frozen=True)
class QueueRules:
    """The rules of one queue; None for what is not looked at."""

    stuck_ms: int | None = None
    overdue_ms: int | None = None
    silent_ms: int | None = None
    objective: Objective | None = None
    burn: float = 14.0

    @property
    def tick_ms(self) -> int:
        """How exactly times are kept: a twentieth of the shortest limit, so that jobs of one moment share a timer."""
        limits = [limit for limit in (self.stuck_ms, self.overdue_ms, self.silent_ms) if limit is not None]
        return min(max(min(limits, default=_COARSEST_MS) // 20, _FINEST_MS), _COARSEST_MS)


@dataclass(frozen=True)
class Rules:
    """The rules of all queues: of several that name a queue the first counts."""

    stuck: Sequence[TimeLimit] = (TimeLimit("*", 900_000),)
    overdue: Sequence[TimeLimit] = (TimeLimit("*", 3_600_000),)
    silent: Sequence[TimeLimit] = ()
    objectives: Sequence[Objective] = ()
    burn: float = 14.0
    """How many times too fast an error budget may be used up over an hour."""

    def of(self, queue: str) -> QueueRules:
        """
        >>> Rules(silent=(TimeLimit("mail", 5000),)).of("mail").silent_ms
        5000
        """
        aim = next((each for each in self.objectives if fnmatchcase(queue, each.queue)), None)
        return QueueRules(
            _first(self.stuck, queue), _first(self.overdue, queue), _first(self.silent, queue), aim, self.burn
        )


def _first(limits: Sequence[TimeLimit], queue: str) -> int | None:
    return next((each.ms for each in limits if fnmatchcase(queue, each.queue)), None)

"""The watch as Spark runs it (`transformWithState`): a queue is a group, and what is known of it lies in Spark's state store.

Spark writes state, timers and the batch's number down together with how far the events were read, and gives a batch that runs
again the time it had: so it finds what it had found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from relevo.pipeline.watch.alert import Alert
from relevo.pipeline.watch.queue_watch import Facts, Happening, Life, QueueWatch
from relevo.pipeline.watch.rules import Rules

COLUMNS = ("turn", "turn_seq", "e", "job_id", "name", "at_ms", "pause_ms", "subscription")
"""Of an event, in the order of `Happening`."""

_LIFE = "running boolean, since_ms bigint, arrived_ms bigint, name string, turn bigint, turn_seq bigint, told_ms bigint"
_FACTS = "last_ms bigint, silent boolean, burning_ms bigint, minutes string"


class WatchProcessor(StatefulProcessor):
    """Events of one queue and timers in, rows of alerts out."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def init(self, handle: Any) -> None:
        self._memory = _SparkMemory(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        told = [Happening(*(row[name] for name in COLUMNS)) for row in rows]
        for alert in self._watch(key, timerValues).take(told):
            yield _row(alert)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        for alert in self._watch(key, timerValues).wake(expiredTimerInfo.getExpiryTimeInMs()):
            yield _row(alert)

    def close(self) -> None:
        """Nothing is open."""

    def _watch(self, key: Any, times: Any) -> QueueWatch:
        source, queue = key
        return QueueWatch(source, queue, self._rules.of(queue), self._memory, times.getCurrentProcessingTimeInMs())


class _SparkMemory:
    """`Memory` in Spark's state store; whose group it is, Spark knows."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._facts = handle.getValueState("facts", _FACTS)
        self._lives = handle.getMapState("lives", "job string", _LIFE)
        self._due = handle.getMapState("due", "at_ms bigint", "jobs array<string>")

    def facts(self) -> Facts:
        known = self._facts.get()
        return Facts() if known is None else Facts(*known)

    def keep_facts(self, facts: Facts) -> None:
        self._facts.update(tuple(facts))

    def life(self, job: str) -> Life | None:
        known = self._lives.getValue((job,))
        return None if known is None else Life(*known)

    def keep_life(self, job: str, life: Life) -> None:
        self._lives.updateValue((job,), tuple(life))

    def forget_life(self, job: str) -> None:
        self._lives.removeKey((job,))

    def due(self, at_ms: int) -> list[str]:
        known = self._due.getValue((at_ms,))
        return [] if known is None else list(known[0])

    def keep_due(self, at_ms: int, jobs: list[str]) -> None:
        if jobs:
            self._due.updateValue((at_ms,), (jobs,))
        else:
            self._due.removeKey((at_ms,))

    def wake_at(self, at_ms: int) -> None:
        self._handle.registerTimer(at_ms)


def _row(alert: Alert) -> Row:
    return Row(**alert._asdict())

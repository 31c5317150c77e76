"""What is wrong in one queue, found in its events: a life for each job that is not over, and a look at the clock.

Spark keeps what is known (`Memory`) and calls `wake` at the times that were asked for. Times are those of the events, and `now`
is the time of the batch, which is the same when the batch runs again: so are the alerts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from relevo.pipeline.watch.alert import Alert, Kind, alert_id
from relevo.pipeline.watch.rules import QueueRules
from relevo.wire.ids import minted_ms

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
FORGOTTEN_MS = 7 * 24 * HOUR_MS
"""So long after it was told, or was last heard of without a limit, a job is still waited for; its end may have been lost with
trimmed events."""
LEAST_MISSED = 5
"""Fewer misses within the hour are no fire, whatever share of few jobs they are."""

_WAITS = frozenset({"waiting", "stalled", "reclaimed", "released", "failed"})
_PAUSES = frozenset({"delayed", "retry-scheduled", "rate-limited", "refused"})
_MISSED = frozenset({"dlq", "expired", "rejected"})
_OVER = frozenset({"completed", "settled", "cancelled", "routed", "review_needed"}) | _MISSED


class Happening(NamedTuple):
    """An event, in the words of jobs (lake/bronze/events.py), or an entry that waits in the stream."""

    turn: int
    turn_seq: int
    word: str
    job_id: str
    name: str
    at_ms: int
    pause_ms: int = 0
    subscription: str = ""


class Life(NamedTuple):
    """A job that is not over."""

    running: bool
    since_ms: int
    """Since when it waits, is due, or runs."""
    arrived_ms: int
    name: str
    turn: int
    turn_seq: int
    told_ms: int = 0
    """When an alert about it was told; 0 when none is open."""


class Facts(NamedTuple):
    """What is known of the queue as a whole."""

    last_ms: int = 0
    """When something last happened."""
    silent: bool = False
    burning_ms: int = 0
    """Since when it burns; 0 when it does not."""
    minutes: str = "[]"
    """Of the last hour: minute, how many jobs met the objective, how many missed it."""


class Memory(Protocol):
    """What Spark keeps for one queue."""

    def facts(self) -> Facts: ...
    def keep_facts(self, facts: Facts) -> None: ...
    def life(self, job: str) -> Life | None: ...
    def keep_life(self, job: str, life: Life) -> None: ...
    def forget_life(self, job: str) -> None: ...
    def due(self, at_ms: int) -> list[str]:
        """The jobs to look at then."""
        ...

    def keep_due(self, at_ms: int, jobs: list[str]) -> None: ...
    def wake_at(self, at_ms: int) -> None: ...


class QueueWatch:
    """The watch over one queue, for the length of one batch."""

    def __init__(self, source: str, queue: str, rules: QueueRules, memory: Memory, now_ms: int) -> None:
        self._source = source
        self._queue = queue
        self._rules = rules
        self._memory = memory
        self._now = now_ms
        self._lives: dict[str, Life | None] = {}
        self._stored: dict[str, Life | None] = {}
        self._ended: list[tuple[int, bool]] = []
        """When jobs ended, and whether they met the objective."""

    def take(self, happenings: Iterable[Happening]) -> Iterator[Alert]:
        """What these events begin or end."""
        last, before = 0, None
        for each in sorted(happenings):
            if each != before:  # an event that was relayed twice, or an entry that was ingested twice
                last, before = max(last, each.at_ms), each
                yield from self._happened(each)
        self._keep_lives()
        yield from self._judge_queue(last)

    def wake(self, at_ms: int) -> Iterator[Alert]:
        """What is wrong because nothing happened until now."""
        for job in dict.fromkeys(self._memory.due(at_ms)):
            life = self._memory.life(job)
            if life is None or self._due_of(life) > at_ms:
                continue  # it is over, or went on and is due later
            if life.told_ms or self._limit_of(life) is None:
                self._memory.forget_life(job)
                continue
            told = life._replace(told_ms=self._now)
            self._memory.keep_life(job, told)
            self._look_again(self._due_of(told), [job])
            yield self._about_job(job, life, "open")
        self._memory.keep_due(at_ms, [])
        yield from self._judge_queue(0)

    # --- jobs ------------------------------------------------------------------------------------------------------

    def _happened(self, it: Happening) -> Iterator[Alert]:
        if not it.job_id:
            return
        if it.subscription:  # each subscription has a life of its own, and the message none that ends
            yield from self._set(it.job_id, None)
        job = f"{it.job_id}/{it.subscription}" if it.subscription else it.job_id
        life = self._life(job)
        if life is not None and (it.turn, it.turn_seq) < (life.turn, life.turn_seq):
            return  # an entry that was read after what came of it
        arrived = life.arrived_ms if life is not None else _arrived(it)
        name = it.name or (life.name if life is not None else "")
        if it.word in _OVER:
            yield from self._set(job, None)
            if it.word == "completed" or it.word in _MISSED:
                aim = self._rules.objective
                met = it.word == "completed" and aim is not None and it.at_ms - arrived <= aim.total_ms
                self._ended.append((it.at_ms, met))
        elif it.word == "active":
            yield from self._set(job, Life(True, it.at_ms, arrived, name, it.turn, it.turn_seq))
        elif it.word in _PAUSES:
            due = it.at_ms + it.pause_ms
            since = due if it.word == "delayed" and life is None else arrived  # who is added for later arrives then
            yield from self._set(job, Life(False, due, since, name, it.turn, it.turn_seq))
        elif it.word in _WAITS:
            paused = it.at_ms + it.pause_ms  # a message that was published for later says so at once
            since = paused if life is None and it.pause_ms else arrived
            yield from self._set(job, Life(False, paused, since, name, it.turn, it.turn_seq))

    def _life(self, job: str) -> Life | None:
        if job not in self._lives:
            self._lives[job] = self._stored[job] = self._memory.life(job)
        return self._lives[job]

    def _set(self, job: str, life: Life | None) -> Iterator[Alert]:
        before = self._life(job)
        self._lives[job] = life
        if before is not None and before.told_ms:
            yield self._about_job(job, before, "over")

    def _keep_lives(self) -> None:
        dues: dict[int, list[str]] = {}
        for job, life in self._lives.items():
            if life == self._stored[job]:
                continue
            if life is None:
                self._memory.forget_life(job)
                continue
            self._memory.keep_life(job, life)
            dues.setdefault(self._due_of(life), []).append(job)
        for due, jobs in sorted(dues.items()):
            self._look_again(due, jobs)

    def _look_again(self, due: int, jobs: list[str]) -> None:
        self._memory.keep_due(due, [*self._memory.due(due), *jobs])
        self._memory.wake_at(due)

    def _due_of(self, life: Life) -> int:
        """When to look at a job, on the grid of timers."""
        limit = self._limit_of(life)
        if life.told_ms or limit is None:
            return self._tick(max(life.told_ms, life.since_ms) + FORGOTTEN_MS)
        return self._tick(life.since_ms + limit)

    def _limit_of(self, life: Life) -> int | None:
        return self._rules.stuck_ms if life.running else self._rules.overdue_ms

    def _tick(self, ms: int) -> int:
        tick = self._rules.tick_ms
        return -(-ms // tick) * tick

    def _about_job(self, job: str, life: Life, state: str) -> Alert:
        kind: Kind = "stuck" if life.running else "overdue"
        limit = self._limit_of(life) or 0
        verb = "runs" if life.running else "waits"
        lasted = (self._now - life.since_ms) / 1000
        detail = f"it {verb} for {lasted:.0f} s, the limit is {limit / 1000:g} s" if state == "open" else "it went on"
        return self._alert(kind, state, life.since_ms, limit, detail, job.partition("/")[0], life.name)

    # --- the queue -------------------------------------------------------------------------------------------------

    def _judge_queue(self, last_ms: int) -> Iterator[Alert]:
        if self._rules.silent_ms is None and self._rules.objective is None:
            return
        before = self._memory.facts()
        facts = before._replace(last_ms=max(before.last_ms, last_ms))
        facts, silence = self._judge_silence(facts, before.last_ms)
        facts, fire = self._judge_burn(facts)
        if facts != before:
            self._memory.keep_facts(facts)
        yield from (each for each in (silence, fire) if each is not None)

    def _judge_silence(self, facts: Facts, last_ms: int) -> tuple[Facts, Alert | None]:
        limit = self._rules.silent_ms
        if limit is None or not facts.last_ms:
            return facts, None
        due = self._tick(facts.last_ms + limit)
        if due > self._now and facts.last_ms > last_ms:
            self._memory.wake_at(due)
        if facts.silent and facts.last_ms > last_ms:
            return facts._replace(silent=False), self._alert("silent", "over", last_ms, limit, "events again")
        if due <= self._now and not facts.silent:
            detail = f"nothing happened for {(self._now - facts.last_ms) / 1000:.0f} s, the limit is {limit / 1000:g} s"
            return facts._replace(silent=True), self._alert("silent", "open", facts.last_ms, limit, detail)
        return facts, None

    def _judge_burn(self, facts: Facts) -> tuple[Facts, Alert | None]:
        aim = self._rules.objective
        if aim is None:
            return facts, None
        minutes: dict[int, list[int]] = {at: [met, missed] for at, met, missed in json.loads(facts.minutes)}
        for at_ms, met in self._ended:
            minutes.setdefault(at_ms // MINUTE_MS, [0, 0])[0 if met else 1] += 1
        first = (self._now - HOUR_MS) // MINUTE_MS
        kept = {at: counts for at, counts in sorted(minutes.items()) if at > first}
        facts = facts._replace(minutes=json.dumps([[at, *counts] for at, counts in kept.items()]))
        met, missed = (sum(counts[place] for counts in kept.values()) for place in (0, 1))
        burn = missed / (met + missed) / (1 - aim.target) if met + missed else 0.0
        share = (
            f"{missed} of {met + missed} jobs of the last hour missed {aim.target:.4g} within {aim.total_ms / 1000:g} s"
        )
        detail = f"{share}: {burn:.1f} times too fast"
        if burn >= self._rules.burn and missed >= LEAST_MISSED:
            self._memory.wake_at((self._now // MINUTE_MS + 1) * MINUTE_MS)  # it may be over without another event
            if not facts.burning_ms:
                facts = facts._replace(burning_ms=self._now)
                return facts, self._alert("burning", "open", self._now, aim.total_ms, detail)
        elif facts.burning_ms:
            over = self._alert("burning", "over", facts.burning_ms, aim.total_ms, detail)
            return facts._replace(burning_ms=0), over
        return facts, None

    def _alert(
        self, kind: Kind, state: str, since_ms: int, limit_ms: int, detail: str, job_id: str = "", name: str = ""
    ) -> Alert:
        known = alert_id(kind, self._source, self._queue, job_id, since_ms)
        told = "open" if state == "open" else "over"
        return Alert(known, kind, told, self._source, self._queue, job_id, name, since_ms, self._now, limit_ms, detail)


def _arrived(it: Happening) -> int:
    """When a job came that is seen for the first time: its id was minted then, unless it is a caller's own."""
    minted = None if it.word == "waiting" else minted_ms(it.job_id[:26])
    return it.at_ms if minted is None else min(minted, it.at_ms)

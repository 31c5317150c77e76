"""A consumer for programs that run jobs by the batch and wait for answers: it takes some, keeps their leases, settles them.

A worker runs jobs one by one on its loop. A batch program, such as a query of Spark, takes many at once under a consumer of
their own, and says later what became of them, perhaps from another process: what is pending for that consumer is the batch.
Every settle asks for the owner first, so a job that another worker has taken over meanwhile is settled there and not here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

from relevo.broker.capabilities import Capabilities
from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, ReplyError, command
from relevo.broker.scripts import Script
from relevo.engine.consuming.entries import NO_JOB, open_entry, open_frame, stalled_too_often
from relevo.engine.consuming.group_member import LEAVE
from relevo.engine.consuming.lease_keeper import RENEW
from relevo.engine.consuming.reader import RECLAIM
from relevo.engine.duties.promoter import BATCH as PROMOTED_AT_ONCE
from relevo.engine.duties.promoter import PROMOTE
from relevo.engine.events.event_log import EventLog
from relevo.engine.service.leader_loop import HOLD_LOCK
from relevo.engine.settling.delivery import DeadLettered, Delivery, HeldDeliveries
from relevo.engine.settling.failure_log import FailureLog
from relevo.engine.settling.outcome import OutcomeBatch
from relevo.engine.settling.outcome_policy import OutcomePolicy
from relevo.engine.settling.settle_request import SettleContext, SettleRequest, SettleResult
from relevo.engine.settling.settler import Settler
from relevo.errors import ServerRefused, UnrecoverableError
from relevo.wire.events import MAX_EVENTS
from relevo.wire.frame import is_frame
from relevo.wire.keys import QueueKeys
from relevo.wire.limits import QueueLimits
from relevo.wire.notes import Notes
from relevo.wire.retry import RetryDefaults

Ask = Callable[[bytes, int], list[Reply]]
"""Sends packed commands to the queue's server and waits for that many replies; sends again what was not answered."""

_AT_ONCE = 1000
_RECLAIMED_AT_ONCE = 500
_LOCK_S = 5
_RESULT_S = 3600
NEVER_TRUSTED = -math.inf
"""When a lease began that nobody here has seen begin: the owner is asked for."""


TakenJobs = Sequence[Delivery]
"""Jobs that were taken here, without their payloads."""


class Ended(NamedTuple):
    """What became of one taken job; `error` is None when it is done."""

    entry_id: bytes
    error: str | None = None
    final: bool = False
    """Whether a failed one is dead at once."""
    result: bytes = b""
    duration_s: float = 0.0


class BatchConsumer:
    """One consumer of one group, which holds one batch."""

    def __init__(
        self,
        ask: Ask,
        queue: str,
        *,
        group: str,
        consumer: str,
        idle_s: float = 30.0,
        max_attempts: int = 25,
        max_stalled: int = 2,
        events: bool = True,
        store_results: bool = False,
    ) -> None:
        keys = QueueKeys(queue)
        self.keys: QueueKeys = keys
        self._ask = ask
        self._group = group
        self._consumer = consumer
        self._idle_ms = int(idle_s * 1000)
        limits = QueueLimits()
        self._limits = limits
        self._events = events
        self._packer = _Packer(_capabilities(ask, keys.tag))
        self._log = log = EventLog(keys, enabled=events)
        self._max_stalled = max_stalled
        context = SettleContext(
            cast("Link", self._packer),  # a flush packs with it, and sends nothing by it
            keys,
            group,
            consumer,
            HeldDeliveries(idle_s=idle_s),
            log,
            result_ttl_s=_RESULT_S,
            dlq_cap=limits.dlq_max_stream_len,
            store_results=store_results,
        )
        self._settler = _BatchSettler(context, ask)
        self._policy = OutcomePolicy(
            self._settler,
            log,
            queue=queue,
            max_attempts=max_attempts,
            retry=RetryDefaults(),
            failure_log=_NoLog(queue),
        )

    # --- taking ----------------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Makes the group if it is not there."""
        created = self._ask(command("XGROUP", "CREATE", self.keys.stream, self._group, "0", "MKSTREAM"), 1)[0]
        if isinstance(created, Exception) and "BUSYGROUP" not in str(created):
            raise ServerRefused(command="XGROUP CREATE", reason=str(created))

    def take(self, most: int) -> list[Delivery]:
        """Takes jobs of dead workers, then new ones, and returns them, without their payloads; none of a paused queue. What
        cannot run is dead-lettered, and entries with many jobs are taken apart: those come with the next batch."""
        if self._call("EXISTS", self.keys.paused):
            return []
        at_once = min(most, _RECLAIMED_AT_ONCE)
        entries: list[Reply] = self._run(
            RECLAIM, [self.keys.stream], self._group, self._consumer, self._idle_ms, at_once
        )
        taken, seen = self._begun(entries), len(entries)
        while seen < most:
            count = min(most - seen, _AT_ONCE)
            reply = self._call(
                *("XREADGROUP", "GROUP", self._group, self._consumer, "COUNT", count),
                *("STREAMS", self.keys.stream, ">"),
            )
            entries = reply[0][1] if reply else []
            taken += self._begun(entries)
            seen += len(entries)
            if len(entries) < count:
                break
        return taken

    def _begun(self, entries: list[Reply]) -> list[Delivery]:
        """Those of these entries that run now, which is told."""
        ready = [each for each in self._opened(entries) if not each.before or self._survived(each)]
        if ready:
            self._note(ready)
            ready = self._without_cancelled(ready)
        for delivery in ready:
            self._settler.started(delivery)
        self._settler.flush()
        for delivery in ready:
            delivery.envelope.payload = b""  # a batch may be large, and whoever runs it reads it for himself
        return ready

    def waiting(self) -> int:
        """Jobs in the stream that nobody holds."""
        held: Reply = self._call("XPENDING", self.keys.stream, self._group)
        return max(0, int(self._call("XLEN", self.keys.stream)) - int(held[0]))

    def pending(self, first: str = "-", last: str = "+", count: int = _AT_ONCE) -> list[bytes]:
        """The ids of what this consumer holds, in order."""
        found: Reply = self._call("XPENDING", self.keys.stream, self._group, first, last, count, self._consumer)
        return [entry[0] for entry in found]

    def entries(self, ids: Sequence[bytes]) -> list[Reply]:
        """The entries as they are in the stream; one that was deleted meanwhile is left out, and let go."""
        if not ids:
            return []
        found = self._near(ids) if len(ids) > 1 else {}
        missing = [entry_id for entry_id in ids if entry_id not in found]
        packed = b"".join(command("XRANGE", self.keys.stream, entry_id, entry_id) for entry_id in missing)
        for reply in self._ask(packed, len(missing)) if missing else ():
            found |= {entry[0]: entry for entry in self._checked(reply, "XRANGE")}
        gone = [entry_id for entry_id in missing if entry_id not in found]
        if gone:
            self._call("XACK", self.keys.stream, self._group, *gone)
        return [found[entry_id] for entry_id in ids if entry_id in found]

    def _near(self, ids: Sequence[bytes]) -> dict[bytes, Reply]:
        """Those of these entries that lie close together: one question for all of them costs the server and us a fraction.
        Between them lie entries of other consumers, and of nobody yet."""
        first, last = min(ids, key=_place), max(ids, key=_place)
        page: Reply = self._call("XRANGE", self.keys.stream, first, last, "COUNT", 2 * len(ids))
        wanted = set(ids)
        return {entry[0]: entry for entry in page if entry[0] in wanted}

    # --- holding ---------------------------------------------------------------------------------------------------------

    def renew(self) -> int:
        """Renews the leases of the whole batch and returns how many it holds; never takes back what another has taken."""
        kept, after = 0, "-"
        while ids := self.pending(after):
            verdicts: Reply = self._run(
                RENEW, [self.keys.stream, self.keys.places], self._group, self._consumer, 0, *ids
            )
            kept += verdicts.count(1)
            after = f"({ids[-1].decode()}"
        return kept

    def promote(self) -> None:
        """Moves due jobs into the stream, as any worker does that happens to lead: retries of ours must come back, too."""
        keys = self.keys
        lock = self._packer.script_call(HOLD_LOCK, [keys.promoter_lock], (self._consumer, _LOCK_S))
        moved = self._packer.script_call(
            PROMOTE,
            [keys.promoter_lock, keys.delayed, keys.stream, keys.dead, keys.events],
            (
                *(self._consumer, PROMOTED_AT_ONCE, self._limits.max_stream_len, self._limits.dlq_max_stream_len),
                MAX_EVENTS if self._events else 0,
                1,  # the cap of the queue's producers counts
            ),
        )
        for reply in self._ask(lock + moved, 2):
            self._checked(reply, "promote.lua")

    # --- settling --------------------------------------------------------------------------------------------------------

    def settle(self, ended: Iterable[Ended], *, leased_at: float = NEVER_TRUSTED) -> SettleResult:
        """Settles these jobs. What this consumer does not hold any more is left alone, and counted as lost. `leased_at` is when
        all their leases were last begun or renewed, by `time.monotonic`, for who has seen it: those need no question."""
        by_id = {each.entry_id: each for each in ended}
        deliveries = self._opened(self.entries(list(by_id)), leased_at)
        self._note(deliveries)
        for delivery in deliveries:
            each = by_id[delivery.entry_id]
            if each.error is None:
                self._settler.done(delivery, each.result, each.duration_s)
            else:
                kind = UnrecoverableError if each.final else RuntimeError
                self._policy.failed(delivery, kind(each.error), each.duration_s)
        return self._settler.flush()

    def finish(self, duration_s: float = 0.0, *, leased_at: float = NEVER_TRUSTED, taken: TakenJobs = ()) -> int:
        """Settles all that is left as done, leaves the group, and returns how many these were. `taken` are those that were
        taken here: they need not be read again."""
        known = {each.entry_id: each for each in taken}
        done, before = 0, list[bytes]()
        while (ids := self.pending()) and ids != before:
            deliveries = self._opened(self.entries([each for each in ids if each not in known]), leased_at)
            for entry_id in ids:
                if (delivery := known.get(entry_id)) is not None:
                    delivery.leased_at = leased_at
                    deliveries.append(delivery)
            self._note(deliveries)
            for delivery in deliveries:
                self._settler.done(delivery, b"", duration_s)
            done += self._settler.flush().done
            before = ids
        self._run(LEAVE, [self.keys.stream], self._group, self._consumer)
        return done

    # --- inside ----------------------------------------------------------------------------------------------------------

    def _opened(self, entries: Iterable[Reply], leased_at: float = NEVER_TRUSTED) -> list[Delivery]:
        ready: list[Delivery] = []
        max_payload = self._limits.max_payload_bytes
        for entry in entries:
            entry_id, fields = entry[0], cast("list[bytes]", entry[1] or [])
            before = entry[3] if len(entry) > 3 else 0
            if len(fields) == 2 and fields[0] == b"d" and is_frame(fields[1]):
                entry_of_all = Delivery(entry_id, NO_JOB, "", before, NEVER_TRUSTED)
                self._take_apart(open_frame(entry_of_all, fields[1], max_payload))
                continue
            opened = open_entry(entry_id, fields, before, leased_at, max_payload)
            if isinstance(opened, Delivery):
                ready.append(opened)
            else:
                self._bury(opened)
        return ready

    def _take_apart(self, jobs: list[Delivery] | DeadLettered) -> None:
        """Jobs of one entry may end in different processes: each gets an entry of its own."""
        if isinstance(jobs, DeadLettered):
            self._bury(jobs)
            return
        for job in jobs:
            self._settler.put_back(job)

    def _survived(self, delivery: Delivery) -> bool:
        """Whether a job of a dead worker gets another chance."""
        dead = stalled_too_often(delivery, self._max_stalled)
        if dead is not None:
            self._bury(dead)
        elif self._log.enabled:
            self._settler.event(self._log.stalled(delivery.envelope.id, delivery.name, delivery.before))
        return dead is None

    def _bury(self, dead: DeadLettered) -> None:
        self._settler.dead_letter(dead.delivery, dead.letter, dead.attempt)

    def _note(self, deliveries: list[Delivery]) -> None:
        """Fetches what is noted of the jobs: their lanes, dedup keys and flows are let go when they are settled."""
        if not deliveries or not self._call("HLEN", self.keys.notes):
            return
        stored: Reply = self._call("HMGET", self.keys.notes, *(each.envelope.id for each in deliveries))
        for delivery, notes in zip(deliveries, stored, strict=True):
            delivery.notes = None if notes is None else Notes.decode(notes)

    def _without_cancelled(self, deliveries: list[Delivery]) -> list[Delivery]:
        marks: Reply = self._call("ZRANGEBYSCORE", self.keys.cancelled, time.time_ns() // 1_000_000, "+inf")
        marked = {mark.decode(errors="replace") for mark in marks}
        if not marked:
            return deliveries
        for delivery in deliveries:
            if (job_id := delivery.envelope.id) in marked:
                self._policy.cancelled(delivery, command("ZREM", self.keys.cancelled, job_id), 0.0)
        return [each for each in deliveries if each.envelope.id not in marked]

    def _call(self, *arguments: Argument) -> Reply:
        return self._checked(self._ask(command(*arguments), 1)[0], str(arguments[0]))

    def _run(self, script: Script, keys: Sequence[bytes], *arguments: Argument) -> Reply:
        return self._checked(self._ask(self._packer.script_call(script, keys, arguments), 1)[0], f"{script.name}.lua")

    def _checked(self, reply: Reply, what: str) -> Reply:
        if isinstance(reply, Exception):
            raise ServerRefused(command=what, reason=str(reply))
        return reply


def _place(entry_id: bytes) -> tuple[int, int]:
    """
    >>> sorted([b"10-0", b"9-12", b"9-2"], key=_place)
    [b'9-2', b'9-12', b'10-0']
    """
    ms, _, sequence = entry_id.partition(b"-")
    return int(ms), int(sequence or 0)


class _NoLog(FailureLog):
    """A batch program has the failures in its own rows, and no loop on which a flood of lines could be counted."""

    def wants(self, level: int, name: str) -> bool:  # noqa: ARG002
        return False


class _Packer:
    """Packs script calls for one kind of server, with their texts: a program that runs for long may meet a server that has
    forgotten them."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities

    def script_call(self, script: Script, keys: Sequence[bytes], arguments: Sequence[Argument]) -> bytes:
        return script.call(self.capabilities, keys, arguments, whole=True)


class _BatchSettler(Settler):
    """Writes when it is told to, and waits for the answer."""

    def __init__(self, context: SettleContext, ask: Ask) -> None:
        super().__init__(context)
        self._ask = ask

    def flush(self) -> SettleResult:
        outcomes, self._outcomes = self._outcomes, OutcomeBatch()
        if not outcomes:
            return SettleResult()
        request = SettleRequest(self._context, outcomes)
        request.read([_known(reply) for reply in self._ask(request.data, request.count)])
        if request.kept:  # the server is full: they stay ours, and the batch runs again
            raise ServerRefused(command="a settle", reason="the server has no memory left")
        if request.follow_ups:
            self._ask(b"".join(request.follow_ups), len(request.follow_ups))
        self.settled.emit(request.settlement)
        return request.settlement


def _known(reply: Reply) -> Reply:
    """An error reply of whichever client asked, as the settle knows it."""
    return ReplyError(str(reply)) if isinstance(reply, Exception) else reply


def _capabilities(ask: Ask, tag: bytes) -> Capabilities:
    return Capabilities.told(*(_known(reply) for reply in ask(Capabilities.questions(tag), 2)))

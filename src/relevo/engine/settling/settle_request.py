"""One flush: what a worker has to say about its deliveries, as one write; and the answers to it.

A delivery whose lease may have lapsed is settled by a script that asks for the owner first; one whose lease cannot have
lapsed is settled by the plain command, at Redis' own speed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar, cast

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, ReplyError, command, pack
from relevo.broker.scripts import script
from relevo.broker.transport import Outcome
from relevo.engine.events.event_log import EventLog, RunEvent
from relevo.engine.lanes.lanes import WINDOW as LANE_WINDOW
from relevo.engine.settling.delivery import Completed, DeadLettered, Frame, HeldDeliveries, Retry
from relevo.engine.settling.outcome import OutcomeBatch
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import Notes

log = logging.getLogger("relevo.settler")

RETRY = script("retry", __name__)
SETTLE = script("settle", __name__)
SETTLE_FRAMES = script("settle_frames", __name__)

SCRIPTS = (RETRY, SETTLE, SETTLE_FRAMES)

_SCRIPT_BATCH = 256
_FRAME_ARGUMENTS = 4000
_FOR_NOW = frozenset({"OOM", "MISCONF", "BUSY", "NOPERM", "EXECABORT"})
"""Refusals that say nothing of the entry: the server is full, cannot save, runs a long script, or its administrator has taken
rights away. What was refused is kept, with its lease, until the server takes it."""
_SCRIPT_WITHOUT_RIGHTS = ("ACL failure in script", "The user executing the script can't run")
"""How Redis 7.4 and later, and earlier ones, say NOPERM of a command in a script."""
_FAILURE_S = 7 * 24 * 3600
"""How long the failure of a job is kept after its next run is due: a queue may be paused for a while."""


Item = TypeVar("Item", Completed, Retry, DeadLettered, Frame, "Completed | DeadLettered | Retry")


@dataclass(slots=True)
class SettleResult:
    """What one flush settled."""

    done: int = 0
    retried: int = 0
    dead: int = 0
    parked: int = 0
    due_in_ms: int | None = None
    """When the first of those tried again is due."""
    lost: int = 0
    """Deliveries that another worker had taken over, or that were settled before: nothing was written for them."""
    retries: list[Retry] = field(default_factory=list[Retry])
    """What `retried` counts."""
    dead_lettered: list[DeadLettered] = field(default_factory=list[DeadLettered])
    """What `dead` counts."""


@dataclass(frozen=True)
class SettleContext:
    """Where a worker settles: its queue, group and name there, and the rules that apply."""

    link: Link
    keys: QueueKeys
    group: str
    consumer: str
    held: HeldDeliveries
    log: EventLog
    result_ttl_s: int
    dlq_cap: int
    store_results: bool = True
    frees_places: bool = False
    """Whether the queue limits how many jobs run at once: a job that ended gives its place back."""


class SettleRequest:
    """Packs `outcomes` for the server the link is connected to; `read` takes its replies."""

    def __init__(self, context: SettleContext, outcomes: OutcomeBatch) -> None:
        self.outcomes = outcomes
        self.answer: Outcome | None = None
        """None while it is under way."""
        self.settlement: SettleResult = SettleResult()
        self.follow_ups: list[bytes] = []
        """Events that are true only now that Redis has answered."""
        self.kept: list[Completed | Retry | DeadLettered | Frame] = []
        """What the server refused for now: to be tried again."""
        self.refused: str = ""
        """Why it refused that, in its own words."""
        self.count: int = 0
        """How many replies it will have."""
        self._context = context
        self._parts: list[bytes] = []
        self._readers: list[Callable[[Reply], None]] = []
        self._pack(outcomes, time.monotonic())

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)

    def receive(self, answer: Outcome) -> None:
        self.answer = answer

    def read(self, replies: list[Reply]) -> None:
        for take, reply in zip(self._readers, replies, strict=False):  # nobody needs the answers to events at the end
            take(reply)

    def _pack(self, outcomes: OutcomeBatch, now: float) -> None:
        trusted_from = now - self._context.held.trust_s  # `HeldDeliveries.trusted`, without a call for each
        over: list[bytes] = []
        safe: list[Completed] = []
        others: list[Completed | DeadLettered | Retry] = []
        for item in outcomes.done:
            delivery = item.delivery
            if delivery.envelope.attempt:
                over.append(self._context.keys.failure(delivery.envelope.id))
            if delivery.notes is not None or item.by_script or delivery.lost or delivery.leased_at <= trusted_from:
                others.append(item)
            else:
                safe.append(item)
        if safe:
            self._acknowledge(safe)
        if others:
            self._settle(others, now)
        if outcomes.dead_lettered:
            self._settle([*outcomes.dead_lettered], now)
            over += [
                self._context.keys.failure(job_id) for job_id in map(_moved_failure, outcomes.dead_lettered) if job_id
            ]
        if outcomes.frames:
            self._pack_frames(outcomes.frames, now)
        self._forget(outcomes, over)
        # Behind the settles: whoever hears "completed" finds the job gone and its result there. But before those of jobs that
        # come back: whoever hears that one waits again has heard that it failed.
        if outcomes.events:
            self._tell(outcomes.events)
        if outcomes.retries:
            self._readers += [_ignore] * len(outcomes.events)
            self._retry([item for item in outcomes.retries if not item.parked], now)
            # From the last: each goes to the head of its lane, before the ones behind it.
            self._settle([item for item in reversed(outcomes.retries) if item.parked], now)

    def _forget(self, outcomes: OutcomeBatch, over: list[bytes]) -> None:
        """What is of no use to jobs that have ended: their places among those that run, and how they failed before."""
        if self._context.frees_places and (settled := outcomes.deliveries()):
            ids = [delivery.entry_id for delivery in settled]
            self._add(pack((b"ZREM", self._context.keys.places, *ids)), _ignore)
        if over:
            self._add(pack((b"UNLINK", *over)), _ignore)

    def _by_owner(self, items: list[Item], now: float) -> Iterator[tuple[str, list[Item]]]:
        """In chunks for a script, with the owner it has to ask for: nobody, where the lease cannot have lapsed."""
        trusted = self._context.held.trusted
        for owner, trust in (("", True), (self._context.consumer, False)):
            those = [item for item in items if trusted(item.delivery, now) is trust]
            for at in range(0, len(those), _SCRIPT_BATCH):
                yield owner, those[at : at + _SCRIPT_BATCH]

    def _add(self, packed: bytes, take: Callable[[Reply], None]) -> None:
        self._parts.append(packed)
        self._readers.append(take)
        self.count += 1

    def _tell(self, events: list[bytes | RunEvent]) -> None:
        """In the order they happened; what was told in a row is packed in a row."""
        row: list[RunEvent] = []
        for event in events:
            if isinstance(event, RunEvent):
                row.append(event)
                continue
            if row:
                self._parts.append(self._context.log.packed(row))
                row = []
            self._parts.append(event)
        if row:
            self._parts.append(self._context.log.packed(row))
        self.count += len(events)

    # --- finished ------------------------------------------------------------------------------------------------------

    def _acknowledge(self, items: list[Completed]) -> None:
        context = self._context
        stream, group = context.keys.stream, context.group
        ids = [item.delivery.entry_id for item in items]
        results = [
            pack((b"SET", context.keys.result(item.delivery.envelope.id), item.result, b"EX", context.result_ttl_s))
            for item in items
            if item.result
        ]

        def count(reply: Reply) -> None:
            if isinstance(reply, ReplyError):
                if self._for_now(reply):  # a full server takes nothing into a MULTI, and still runs a script
                    self.kept.extend(
                        Completed(item.delivery, item.result, item.cancelled, by_script=True) for item in items
                    )
                return
            gone = cast("list[int]", reply).count(1) if isinstance(reply, list) else int(reply)
            self.settlement.done += gone
            self.settlement.lost += len(ids) - gone

        native = context.link.capabilities.ack_delete
        acks = [pack((b"XACKDEL", stream, group, b"IDS", len(ids), *ids))]
        if not native:
            acks = [pack((b"XACK", stream, group, *ids)), pack((b"XDEL", stream, *ids))]
        if native and not results:
            self._add(acks[0], count)
            return
        # In one MULTI: a crash never leaves an acked entry in the stream for ever, nor a finished job without its result.
        for packed in (command("MULTI"), *results, *acks):
            self._add(packed, self._queued)
        place = len(results)
        self._add(
            command("EXEC"),
            lambda reply: count(cast("list[Reply]", reply)[place] if isinstance(reply, list) else reply),
        )

    # --- by script -----------------------------------------------------------------------------------------------------

    def _settle(self, items: list[Completed | DeadLettered | Retry], now: float) -> None:
        """Jobs that are done, dead or told to come later, of one kind in a call."""
        context = self._context
        keys = [context.keys.stream, context.keys.dead, context.keys.notes, context.keys.delayed]
        for owner, chunk in self._by_owner(items, now):
            dlq_cap = context.dlq_cap if isinstance(chunk[0], DeadLettered) else 0
            ttl_s = context.result_ttl_s if context.store_results else 0
            arguments: list[Argument] = [context.keys.tag, context.group, owner, LANE_WINDOW, dlq_cap, ttl_s]
            for item in chunk:
                arguments += _settled(item)

            def count(reply: Reply, chunk: list[Completed | DeadLettered | Retry] = chunk) -> None:
                for item in self._ours(reply, chunk):
                    if isinstance(item, Completed):
                        self.settlement.done += 1
                    elif isinstance(item, DeadLettered):
                        self._buried(item)
                    else:
                        self.settlement.parked += 1

            self._add(context.link.script_call(SETTLE, keys, arguments), count)

    def _retry(self, items: list[Retry], now: float) -> None:
        """Apart from `_settle`: in a storm of failures this is most of what a worker says."""
        context = self._context
        keys = [context.keys.stream, context.keys.delayed, context.keys.events]
        for owner, chunk in self._by_owner(items, now):
            arguments: list[Argument] = [context.group, owner, context.log.cap, context.keys.tag, _FAILURE_S]
            for item in chunk:
                delivery = item.delivery
                about = (delivery.envelope.id, delivery.name, item.attempt, item.failure)
                arguments += (delivery.entry_id, item.wait_ms, item.member, *about)

            def count(reply: Reply, chunk: list[Retry] = chunk) -> None:
                self._delayed(self._ours(reply, chunk))

            self._add(context.link.script_call(RETRY, keys, arguments), count)

    # --- many jobs in one entry ------------------------------------------------------------------------------------------

    def _pack_frames(self, frames: list[Frame], now: float) -> None:
        trusted = self._context.held.trusted
        for owner, trust in (("", True), (self._context.consumer, False)):
            chunk, packed = list[Frame](), list[Argument]()
            for frame in frames:
                if trusted(frame.delivery, now) is trust:
                    chunk.append(frame)
                    packed += frame.arguments()
                    if len(packed) > _FRAME_ARGUMENTS:
                        self._settle_frames(chunk, packed, owner)
                        chunk, packed = [], []
            if chunk:
                self._settle_frames(chunk, packed, owner)

    def _settle_frames(self, frames: list[Frame], packed: list[Argument], owner: str) -> None:
        context = self._context

        def count(reply: Reply) -> None:
            for frame in self._ours(reply, frames):
                self.settlement.done += frame.done
                again = [item for item in frame.retries if not item.parked]
                self.settlement.parked += len(frame.retries) - len(again)
                self._delayed(again)
                self._tell_of_retries(again)
                for burial in frame.dead_lettered:
                    self._buried(burial)

        keys = [context.keys.stream, context.keys.delayed, context.keys.dead]
        arguments: list[Argument] = [
            context.keys.tag,
            context.group,
            owner,
            context.result_ttl_s,
            context.dlq_cap,
            _FAILURE_S,
        ]
        arguments += packed
        self._add(context.link.script_call(SETTLE_FRAMES, keys, arguments), count)

    # --- what it came to -------------------------------------------------------------------------------------------------

    def _delayed(self, items: list[Retry]) -> None:
        self.settlement.retried += len(items)
        self.settlement.retries += items
        soonest = min((item.wait_ms for item in items), default=None)
        if soonest is not None:
            known = self.settlement.due_in_ms
            self.settlement.due_in_ms = soonest if known is None else min(known, soonest)

    def _tell_of_retries(self, items: list[Retry]) -> None:
        if self._context.log.enabled:
            for item in items:
                envelope, name = item.delivery.envelope, item.delivery.name
                packed = self._context.log.retry_scheduled(envelope.id, name, item.attempt, item.wait_ms)
                self.follow_ups.append(packed)

    def _buried(self, item: DeadLettered) -> None:
        self.settlement.dead += 1
        self.settlement.dead_lettered.append(item)
        if self._context.log.enabled:
            letter = item.letter
            job_id = item.delivery.envelope.id
            self.follow_ups.append(self._context.log.dead(job_id, letter.name, item.attempt, letter.reason))

    def _ours(self, reply: Reply, chunk: list[Item]) -> list[Item]:
        if isinstance(reply, ReplyError):
            if self._for_now(reply):
                self.kept.extend(chunk)
            return []
        ours = [item for item, verdict in zip(chunk, cast("list[int]", reply), strict=True) if verdict == 1]
        self.settlement.lost += len(chunk) - len(ours)
        return ours

    def _queued(self, reply: Reply) -> None:
        """Why a MULTI will be refused is said to the command that is: its EXEC says only that it was."""
        if isinstance(reply, ReplyError):
            self.refused = self.refused or str(reply)

    def _for_now(self, refusal: ReplyError) -> bool:
        """Whether what was refused may be taken later."""
        said = str(refusal)
        if refusal.code in _FOR_NOW or any(words in said for words in _SCRIPT_WITHOUT_RIGHTS):
            self.refused = self.refused or said
            return True
        log.error("outcomes of queue %s were refused for good: %s", self._context.keys.queue, refusal)
        return False


def _settled(item: Completed | DeadLettered | Retry) -> tuple[Argument, ...]:
    """As `settle.lua` takes it."""
    delivery, notes = item.delivery, item.delivery.notes or Notes()
    held = (delivery.entry_id, delivery.envelope.id, notes.lane or "", notes.dedup or "", *notes.node)
    if isinstance(item, Completed):
        return (*held, "cancelled" if item.cancelled else "done", item.result, 0, 0)
    if isinstance(item, Retry):
        return (*held, "later", item.member, item.wait_ms, 0)
    fields = item.letter.encode()
    return (*held, "failed", item.letter.detail.encode(errors="replace"), 0, len(fields), *fields)


def _moved_failure(item: DeadLettered) -> str:
    """The id of a job whose dead letter says how its last run failed, and which may have kept an earlier failure."""
    envelope = item.delivery.envelope
    return envelope.id if envelope.attempt and item.letter.traceback else ""


def _ignore(_: Reply) -> None:
    return

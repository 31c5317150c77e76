"""One flush: what a worker has to say about its deliveries, as one write; and the answers to it.

A delivery whose lease may have lapsed is settled by a script that asks for the owner first; one whose lease cannot have
lapsed is settled by the plain command, at Redis' own speed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, ReplyError, command, pack
from relevo.broker.scripts import script
from relevo.engine.events.event_log import EventLog, RunEvent
from relevo.engine.lanes.lanes import WINDOW as LANE_WINDOW
from relevo.engine.settling.delivery import Completed, DeadLettered, Frame, HeldDeliveries, Postponed, Retry
from relevo.engine.settling.outcome import OutcomeBatch
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import Notes

log = logging.getLogger("relevo.flush")

RETRY = script("retry", __name__)
DEAD_LETTER = script("dead_letter", __name__)
FINISH = script("finish", __name__)
SETTLE_NOTED = script("settle_noted", __name__)
PARK = script("park", __name__)
SETTLE_FRAMES = script("settle_frames", __name__)

SCRIPTS = (RETRY, DEAD_LETTER, FINISH, SETTLE_NOTED, PARK, SETTLE_FRAMES)

_SCRIPT_BATCH = 256
_FRAME_ARGUMENTS = 4000
_FAILURE_S = 7 * 24 * 3600
"""How long the failure of a job is kept after its next run is due: a queue may be paused for a while."""


Item = TypeVar("Item", Completed, Retry, DeadLettered, Postponed, Frame, "Completed | DeadLettered")


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


class SettleRequest:
    """Packs `outcomes` for the server the link is connected to; `read` takes its replies."""

    def __init__(self, context: SettleContext, outcomes: OutcomeBatch) -> None:
        self.settlement = SettleResult()
        self.follow_ups: list[bytes] = []
        """Events that are true only now that Redis has answered."""
        self.kept: list[Completed | Retry | DeadLettered | Postponed | Frame] = []
        """What a full server refused: to be tried again."""
        self.count = 0
        """How many replies it will have."""
        self._context = context
        self._parts: list[bytes] = []
        self._readers: list[Callable[[Reply], None]] = []
        self._pack(outcomes, time.monotonic())

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)

    def read(self, replies: list[Reply]) -> None:
        for take, reply in zip(self._readers, replies, strict=False):  # nobody needs the answers to events at the end
            take(reply)

    def _pack(self, outcomes: OutcomeBatch, now: float) -> None:
        trusted_from = now - self._context.held.trust_s  # `HeldDeliveries.trusted`, without a call for each
        recovered: list[bytes] = []
        safe: list[Completed] = []
        doubtful: list[Completed] = []
        noted = False
        for item in outcomes.done:
            delivery = item.delivery
            if delivery.envelope.attempt:
                recovered.append(self._context.keys.failure(delivery.envelope.id))
            if delivery.notes is not None:
                noted = True
            elif item.by_script or delivery.lost or delivery.leased_at <= trusted_from:
                doubtful.append(item)
            else:
                safe.append(item)
        if doubtful:
            self._finish(doubtful)
        if safe:
            self._acknowledge(safe)
        if noted or outcomes.dead_lettered:
            self._pack_noted(outcomes, now)
        if outcomes.frames:
            self._pack_frames(outcomes.frames, now)
        recovered += [
            self._context.keys.failure(job_id) for job_id in map(_moved_failure, outcomes.dead_lettered) if job_id
        ]
        if recovered:  # how they failed before is of no use any more, or stands in the dead letter
            self._add(pack((b"UNLINK", *recovered)), _ignore)
        # Behind the settles: whoever hears "completed" finds the job gone and its result there. But before those of jobs that
        # come back: whoever hears that one waits again has heard that it failed.
        if outcomes.events:
            self._tell(outcomes.events)
        if outcomes.retries or outcomes.postponed:
            self._readers += [_ignore] * len(outcomes.events)
            self._pack_delayed(outcomes, now)

    def _pack_noted(self, outcomes: OutcomeBatch, now: float) -> None:
        trusted = self._context.held.trusted
        noted: list[Completed | DeadLettered] = [item for item in outcomes.done if item.delivery.notes is not None]
        noted += [item for item in outcomes.dead_lettered if item.delivery.notes is not None]
        plain = [item for item in outcomes.dead_lettered if item.delivery.notes is None]
        for owner, trust in (("", True), (self._context.consumer, False)):
            self._dead_letter([item for item in plain if trusted(item.delivery, now) is trust], owner)
            self._settle_noted([item for item in noted if trusted(item.delivery, now) is trust], owner)

    def _pack_delayed(self, outcomes: OutcomeBatch, now: float) -> None:
        trusted = self._context.held.trusted
        for owner, trust in (("", True), (self._context.consumer, False)):
            self._retry([item for item in outcomes.retries if trusted(item.delivery, now) is trust], owner)
            self._postpone([item for item in outcomes.postponed if trusted(item.delivery, now) is trust], owner)

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
                log.error("acks of queue %s refused: %s", context.keys.queue, reply)
                if reply.code in ("OOM", "EXECABORT"):  # a full server takes nothing into a MULTI
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
            self._add(packed, _ignore)
        place = len(results)
        self._add(
            command("EXEC"),
            lambda reply: count(cast("list[Reply]", reply)[place] if isinstance(reply, list) else reply),
        )

    def _finish(self, items: list[Completed]) -> None:
        context = self._context
        for chunk in _chunks(items):
            keys = [context.keys.stream, *(context.keys.result(item.delivery.envelope.id) for item in chunk)]
            arguments: list[Argument] = [context.group, context.consumer, context.result_ttl_s]
            for item in chunk:
                arguments += (item.delivery.entry_id, item.result)

            def count(reply: Reply, chunk: list[Completed] = chunk) -> None:
                self.settlement.done += len(self._ours(reply, chunk))

            self._add(context.link.script_call(FINISH, keys, arguments), count)

    # --- failed --------------------------------------------------------------------------------------------------------

    def _retry(self, items: list[Retry], owner: str) -> None:
        context = self._context
        for chunk in _chunks(items):
            arguments: list[Argument] = [context.group, owner, context.log.cap, context.keys.tag, _FAILURE_S]
            for item in chunk:
                delivery = item.delivery
                about = (delivery.envelope.id, delivery.name, item.attempt, item.failure)
                arguments += (delivery.entry_id, item.wait_ms, item.member, *about)

            def count(reply: Reply, chunk: list[Retry] = chunk) -> None:
                self._delayed(self._ours(reply, chunk))

            keys = [context.keys.stream, context.keys.delayed, context.keys.events]
            self._add(context.link.script_call(RETRY, keys, arguments), count)

    def _dead_letter(self, items: list[DeadLettered], owner: str) -> None:
        context = self._context
        for chunk in _chunks(items):
            arguments: list[Argument] = [context.group, owner, context.dlq_cap]
            for item in chunk:
                fields = item.letter.encode()
                arguments += (item.delivery.entry_id, len(fields), *fields)

            def count(reply: Reply, chunk: list[DeadLettered] = chunk) -> None:
                for item in self._ours(reply, chunk):
                    self._buried(item)

            self._add(context.link.script_call(DEAD_LETTER, [context.keys.stream, context.keys.dead], arguments), count)

    # --- with notes ----------------------------------------------------------------------------------------------------

    def _settle_noted(self, items: list[Completed | DeadLettered], owner: str) -> None:
        context = self._context
        for chunk in _chunks(items):
            arguments: list[Argument] = [
                context.keys.tag,
                context.group,
                owner,
                LANE_WINDOW,
                context.dlq_cap,
                context.result_ttl_s if context.store_results else 0,
            ]
            for item in chunk:
                delivery, notes = item.delivery, item.delivery.notes or Notes()
                if isinstance(item, Completed):
                    state, said, fields = "cancelled" if item.cancelled else "done", item.result, list[bytes]()
                else:
                    state, said, fields = "failed", item.letter.detail.encode(errors="replace"), item.letter.encode()
                held = (notes.lane or "", notes.dedup or "", *notes.node)
                arguments += (delivery.entry_id, delivery.envelope.id, *held, state, said, len(fields), *fields)

            def count(reply: Reply, chunk: list[Completed | DeadLettered] = chunk) -> None:
                for item in self._ours(reply, chunk):
                    if isinstance(item, Completed):
                        self.settlement.done += 1
                    else:
                        self._buried(item)

            keys = [context.keys.stream, context.keys.dead, context.keys.notes]
            self._add(context.link.script_call(SETTLE_NOTED, keys, arguments), count)

    def _postpone(self, items: list[Postponed], owner: str) -> None:
        context = self._context
        for chunk in _chunks(items):
            arguments: list[Argument] = [context.keys.tag, context.group, owner]
            for item in chunk:
                delivery = item.delivery
                lane = (delivery.notes.lane if delivery.notes is not None else None) or ""
                arguments += (delivery.entry_id, item.wait_ms, item.member, delivery.envelope.id, lane)

            def count(reply: Reply, chunk: list[Postponed] = chunk) -> None:
                self.settlement.parked += len(self._ours(reply, chunk))

            self._add(context.link.script_call(PARK, [context.keys.stream, context.keys.delayed], arguments), count)

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
                self.settlement.parked += len(frame.postponed)
                self._delayed(frame.retries)
                self._tell_of_retries(frame.retries)
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
            log.error("a settle of queue %s was refused: %s", self._context.keys.queue, reply)
            if reply.code == "OOM":  # the server is full: keep the outcome (and the lease) until it has room again
                self.kept.extend(chunk)
            return []
        ours = [item for item, verdict in zip(chunk, cast("list[int]", reply), strict=True) if verdict == 1]
        self.settlement.lost += len(chunk) - len(ours)
        return ours


def _moved_failure(item: DeadLettered) -> str:
    """The id of a job whose dead letter says how its last run failed, and which may have kept an earlier failure."""
    envelope = item.delivery.envelope
    return envelope.id if envelope.attempt and item.letter.traceback else ""


def _ignore(_: Reply) -> None:
    return


def _chunks(items: list[Item]) -> list[list[Item]]:
    return [items[at : at + _SCRIPT_BATCH] for at in range(0, len(items), _SCRIPT_BATCH)]

"""Continuously: events leave the outbox for the Redis streams of their queues, and for `_events` where the scope asks for it.

Each once, and in order for each message. The rows of one message stand in the outbox in the order of its changes (see
work/store/outbox.py); the relay sends rows by number, and deletes them only once Redis has them all. Who dies in between leaves
them to be sent again by whoever takes the lease; Redis marks a row in the step that takes its events, and takes none twice.

The messages of `_events` are inserted in the transaction that deletes the rows, so those are made exactly once. While Redis is
away they are made all the same, and the rows are kept for the streams.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Sequence

import msgspec
from sqlalchemy import delete, select, update

from relevo.agents.agent import Batch
from relevo.agents.event_streams import EventStreams
from relevo.contract.messages import NewMessage
from relevo.errors import EventsOvertaken, NotFound, RelevoError
from relevo.work.caller import Caller
from relevo.work.faults import fault
from relevo.work.message.system_messages import post
from relevo.work.queue_record import QueueRecord
from relevo.work.store.outbox import OutboxRow, WorkEvent
from relevo.work.store.tables import outbox
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues

log = logging.getLogger("relevo.agents")

_REDIS_AWAY_S = 0.5
_LATE_ROWS = 1_000
_MOST_EVENTS = 2_000
"""A row may hold a thousand events: what is sent at once must fit into Redis' time limit, and into a turn of the loop."""
_FRESH_S = 10.0
"""Rows that were read longer ago are read again: another relay may have sent and deleted them, and Redis forgotten that."""


class OutboxRelay:
    """Relays up to `batch` rows at a time."""

    name = "outbox_relay"
    every_s = 1.0
    about = "sends events to their streams and to `_events`"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 1_000, max_len: int = 100_000) -> None:
        self._work_queues = work_queues
        self._batch = batch
        self._caller = Caller.system(self.name)
        url = work_queues.settings.redis_url
        self.streams = None if url is None else EventStreams(url, max_len=max_len)
        self._away = False
        self._copied_until = 0
        self._webhooks_due = False
        self._looked_at = 64
        """Rows asked for at once, by what rows have held lately: each may hold one event or two thousand."""
        self._more = False

    async def work(self) -> Batch:
        looked = time.monotonic()
        rows = await self._rows(only_uncopied=False)
        if not rows:
            return Batch(0)
        queues = await self._queues(rows)
        if time.monotonic() - looked > _FRESH_S:
            return Batch(0, more=True)
        try:
            await self._send(rows, queues)
        except (RelevoError, OSError, TimeoutError) as error:
            if not self._away:
                log.warning("events wait in the outbox until Redis is back: %s", error)
            self._away = True
            return await self._copy_meanwhile()
        if self._away:
            log.warning("events leave the outbox again")
        self._away, self._copied_until = False, 0
        fault("relay.sent")
        await self._work_queues.transactions.run(lambda each: self._finish(each, rows, queues))
        self._tell_webhooks()
        # Little by little would cost a query and a commit each: what is not a whole batch yet waits for the next beat.
        return Batch(sum(row.count for row in rows), more=self._more)

    async def close(self) -> None:
        if self.streams is not None:
            await self.streams.close()

    async def _send(self, rows: Sequence[OutboxRow], queues: dict[int, QueueRecord]) -> None:
        if self.streams is None:
            return
        own: dict[QueueRecord, list[OutboxRow]] = defaultdict(list)
        for row in rows:
            for queue_id in dict.fromkeys(part.queue_id for part, _ in row.parts):
                queue = queues.get(queue_id)
                if queue is not None:  # a queue that was deleted meanwhile has no stream any more
                    own[queue].append(row)
        await self.streams.send(own, first=rows[0].id)

    async def _copy_meanwhile(self) -> Batch:
        """Redis is away: `_events` gets its messages, the rows stay."""
        rows = await self._rows(only_uncopied=True)
        if not rows:
            await asyncio.sleep(_REDIS_AWAY_S)
            return Batch(0)
        self._copied_until = rows[-1].id
        queues = await self._queues(rows)
        ids = [row.id for row in rows]

        async def copy(transaction: SqlUnitOfWork) -> int:
            copied = await self._to_events_queue(transaction, rows, queues)
            await transaction.connection.execute(update(outbox).where(outbox.c.id.in_(ids)).values(copied=1))
            return copied

        copied = await self._work_queues.transactions.run(copy)
        self._tell_webhooks()
        return Batch(copied, more=self._more)

    async def _finish(
        self, transaction: SqlUnitOfWork, rows: Sequence[OutboxRow], queues: dict[int, QueueRecord]
    ) -> None:
        ids = [row.id for row in rows]
        gone = await transaction.connection.execute(delete(outbox).where(outbox.c.id.in_(ids)))
        if gone.rowcount == len(rows):
            await self._to_events_queue(transaction, [row for row in rows if not row.copied], queues)
            return
        # Another relay was here although the lease was ours (one of us stood still): what it deleted, it has copied.
        raise EventsOvertaken

    async def _to_events_queue(
        self, transaction: SqlUnitOfWork, rows: Sequence[OutboxRow], queues: dict[int, QueueRecord]
    ) -> int:
        await self._work_queues.router.note(transaction, rows, queues)  # as the messages of `_events`: exactly once
        self._webhooks_due = await self._work_queues.webhook_deliveries.make(transaction, rows, queues)
        wanted: dict[int, list[NewMessage]] = defaultdict(list)
        for row in rows if any(queue.events_to_queue for queue in queues.values()) else ():
            for event in row.events:
                queue = queues.get(event.queue_id)
                # Events of system queues stay out: working on `_events` would fill it for ever.
                if queue is not None and not queue.system and event.event in queue.events_to_queue:
                    wanted[queue.events_queue_id].append(_as_message(event, queue))
        copied = 0
        for queue_id, new in sorted(wanted.items()):
            home = await self._work_queues.queues.by_id(queue_id)
            copied += await post(transaction, self._work_queues.mint, self._caller, home, new)
        return copied

    def _tell_webhooks(self) -> None:
        """After the commit: what was just made is due."""
        if self._webhooks_due:
            self._webhooks_due = False
            self._work_queues.webhook_deliveries.due.emit(None)

    async def _rows(self, *, only_uncopied: bool) -> list[OutboxRow]:
        limit = min(self._batch, self._looked_at)
        o = outbox.c
        query = select(o.id, o.created_at, o.events, o.copied).order_by(o.id).limit(limit)
        if only_uncopied:
            # Not from the beginning, where all is copied in a long outage. Rows that are committed late are copied with the
            # streams in the end.
            query = query.where(o.copied == 0, o.id > self._copied_until - _LATE_ROWS)
        async with self._work_queues.database.connect() as connection:
            found = (await connection.execute(query)).all()
        rows: list[OutboxRow] = []
        events = 0
        for row in found:
            rows.append(OutboxRow(row.id, row.created_at, row.events, copied=bool(row.copied)))
            events += rows[-1].count
            if events >= _MOST_EVENTS:
                break
        self._more = len(rows) == limit or events >= _MOST_EVENTS
        if rows:
            self._looked_at = max(2, 2 * _MOST_EVENTS * len(rows) // max(events, 1))
        return rows

    async def _queues(self, rows: Sequence[OutboxRow]) -> dict[int, QueueRecord]:
        known: dict[int, QueueRecord] = {}
        for queue_id in {part.queue_id for row in rows for part, _ in row.parts}:
            try:
                known[queue_id] = await self._work_queues.queues.by_id(queue_id)
            except NotFound:
                continue
        return known


def _as_message(event: WorkEvent, queue: QueueRecord) -> NewMessage:
    body = {
        "event": event.event,
        "message_id": event.id,
        "queue": queue.slug,
        "ts": event.ts,
        "message_type": event.message_type,
        "correlation_id": event.correlation_id,
        **(event.extras or {}),
    }
    return NewMessage(
        body=msgspec.Raw(msgspec.json.encode(body)),
        message_type=f"message.{event.event}",
        correlation_id=event.correlation_id,
        causation_id=event.id,
        source_type="queue",
        source_id=queue.slug,
    )

"""What a change of a message leaves beside its row: usage, events, the order and the audit."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from sqlalchemy import Select, select

from relevo.work.consume.long_poll import Wake
from relevo.work.store.counters import COUNTED_STATES, TALLIES
from relevo.work.store.interface import PlainRows
from relevo.work.store.outbox import WorkEvent, decode
from relevo.work.store.tables import audit, deliveries, outbox, subscriptions
from relevo.work.store.unit_of_work import Ready
from tests.support.desk import JOBS, SCOPE, Desk, tallied

DEAD_LETTER = "_dead_letter"
USAGE = tuple(name for name in TALLIES if name not in COUNTED_STATES)


class Aftermath:
    """What was there before the transition, and what it added."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ready: list[Ready] = []
        self.woken: list[int] = []
        """Queues whose waiting claims were told."""
        self._desk = desk
        self._usage: dict[str, dict[str, int]] = {}
        self._outbox: set[int] = set()
        self._audits = 0
        add = desk.work_queues.ready_index.add

        async def told(ready: Sequence[Ready], published: Sequence[PlainRows]) -> None:
            self.ready += ready
            for rows in published:
                self.ready += [Ready(rows.queue_id, *place) for place in zip(rows.sort_keys, rows.ids, strict=True)]
            await add(ready, published)

        monkeypatch.setattr(desk.work_queues.ready_index, "add", told)
        wake = desk.work_queues.long_poll.wake

        def woken(wakes: Mapping[int, Wake]) -> None:
            self.woken += wakes
            wake(wakes)

        monkeypatch.setattr(desk.work_queues.long_poll, "wake", woken)

    async def look(self) -> None:
        self._usage = {queue: await self._tallied(queue) for queue in (JOBS, DEAD_LETTER)}
        self._outbox = {row.id for row in await self._rows(select(outbox))}
        self._audits = len(await self._entries())

    async def usage(self) -> dict[str, int]:
        """What was added to the usage of the queue; the one of dead letters has none of its own."""
        added = {
            queue: {name: after[name] - before[name] for name in USAGE if after[name] != before[name]}
            for queue, before in self._usage.items()
            for after in [await self._tallied(queue)]
        }
        assert added[DEAD_LETTER] == {}
        return added[JOBS]

    async def events(self, message_id: str) -> list[WorkEvent]:
        rows = [row for row in await self._rows(select(outbox).order_by(outbox.c.id)) if row.id not in self._outbox]
        return [event for row in rows for event in decode(row.events) if event.id == message_id]

    async def actions(self, message_id: str) -> list[str]:
        """Of the new audit rows about messages that name this one."""
        rows = [row for row in (await self._entries())[self._audits :] if row.action.startswith("message.")]
        return [
            row.action for row in rows if message_id in msgspec.json.decode(row.after or "{}").get("ids", [row.target])
        ]

    async def delivery(self, message_id: str, subscription: str) -> Any:
        """What the subscription has to do with the message."""
        query = select(deliveries).join(subscriptions, subscriptions.c.id == deliveries.c.subscription_id)
        mine = (deliveries.c.message_id == message_id, subscriptions.c.name == subscription)
        (row,) = await self._rows(query.where(*mine))
        return row

    async def _tallied(self, queue: str) -> dict[str, int]:
        record = await self._desk.work_queues.queues.lookup(self._desk.caller, SCOPE, queue)
        return await tallied(self._desk.work_queues, record.id)

    async def _entries(self) -> Sequence[Any]:
        own = audit.c.tenant_id == self._desk.caller.tenant_id
        return await self._rows(select(audit).where(own).order_by(audit.c.id))

    async def _rows(self, query: Select[Any]) -> Sequence[Any]:
        async with self._desk.work_queues.database.connect() as connection:
            return (await connection.execute(query)).all()

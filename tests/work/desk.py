"""A desk in an installation: one tenant, one scope, and short ways to publish, claim and settle."""

from typing import Any

import msgspec
from sqlalchemy import func, select

from relevo.contract.claims import Claimed, Settled
from relevo.contract.messages import NewMessage, Published, Refusal
from relevo.work.caller import Caller
from relevo.work.message.history import steps
from relevo.work.message.verdict import SettleItem, Verdict
from relevo.work.queue_record import QueueRecord, QueueSettings
from relevo.work.store.counters import Depth, depths_of
from relevo.work.store.tables import messages
from relevo.work.work_queues import WorkQueues

SCOPE = "main"
JOBS = "jobs"


def new(n: int = 0, **fields: Any) -> NewMessage:
    return NewMessage(body=msgspec.Raw(b'{"n":%d}' % n), **fields)


def number(message: Claimed) -> int:
    """Which of the messages of `new` this is."""
    return msgspec.json.decode(message.body)["n"]


class Desk:
    """Work in one scope; `at` the same scope, by other work queues on the same database."""

    def __init__(self, work_queues: WorkQueues, caller: Caller) -> None:
        self.work_queues = work_queues
        self.caller = caller

    def at(self, work_queues: WorkQueues) -> "Desk":
        return Desk(work_queues, self.caller)

    async def queue(self, slug: str = JOBS, **settings: Any) -> QueueRecord:
        return await self.work_queues.queues.create(self.caller, SCOPE, slug, QueueSettings(**settings))

    async def publish(self, *given: NewMessage, queue: str = JOBS) -> list[Published | Refusal]:
        return await self.work_queues.messages.publish(self.caller, SCOPE, queue, given)

    async def ids(self, *given: NewMessage, queue: str = JOBS) -> list[str]:
        """Publishes what must not be refused, and returns the ids."""
        outcomes = await self.publish(*given, queue=queue)
        assert all(isinstance(each, Published) for each in outcomes), outcomes
        return [each.id for each in outcomes if isinstance(each, Published)]

    async def claim(self, count: int = 1, queue: str = JOBS, **how: Any) -> list[Claimed]:
        return await self.work_queues.claims.claim(self.caller, SCOPE, queue, batch_size=count, **how)

    async def settle(
        self, verdict: Verdict, *claimed: Claimed, queue: str | None = JOBS, **fields: Any
    ) -> list[Settled]:
        items = [SettleItem(id=each.id, claim_token=each.claim_token, **fields) for each in claimed]
        return await self.work_queues.settlements.settle(self.caller, SCOPE, verdict, items, queue=queue)

    async def row(self, message_id: str) -> dict[str, Any]:
        async with self.work_queues.database.connect() as connection:
            query = select(messages).where(messages.c.id == message_id)
            return dict((await connection.execute(query)).mappings().one())

    async def history(self, message_id: str) -> list[str]:
        return [step.event for step in steps((await self.row(message_id))["trail"])]

    async def depth(self, queue: str = JOBS) -> Depth:
        record = await self.work_queues.queues.lookup(self.caller, SCOPE, queue)
        return (await depths_of(self.work_queues.database, [record.id]))[record.id]

    async def states(self, queue: str = JOBS) -> dict[str, int]:
        """How many rows of a queue are in each state: what the depths must agree with."""
        record = await self.work_queues.queues.lookup(self.caller, SCOPE, queue)
        async with self.work_queues.database.connect() as connection:
            query = select(messages.c.state, func.count()).where(messages.c.queue_id == record.id)
            return {row[0]: row[1] for row in await connection.execute(query.group_by(messages.c.state))}

    async def drain(self, count: int = 50, queue: str = JOBS) -> list[Claimed]:
        """Claims and completes until nothing is left; what was claimed, in that order."""
        done: list[Claimed] = []
        while claimed := await self.claim(count, queue):
            settled = await self.settle("complete", *claimed, queue=queue)
            assert all(each.state == "completed" for each in settled), settled
            done += claimed
        return done

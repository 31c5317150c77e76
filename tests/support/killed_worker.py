"""A process that publishes, claims and completes until it is killed: by itself at a fault point, or from outside.

It tells through its pipe what it was told: `published KEY ID`, `claimed ID`, `completed ID`. Run again it goes on where the
last one was killed. Started from a fork server that has everything imported: a crash is to cost milliseconds, there are many.
"""

import asyncio
import os
from multiprocessing.connection import Connection
from typing import NamedTuple

import msgspec

from relevo.contract.messages import NewMessage, Published
from relevo.work.caller import Caller
from relevo.work.message.verdict import SettleItem
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.pace import limit
from tests.support.desk import JOBS, SCOPE


class Orders(NamedTuple):
    """What it is to do, and where it is to die."""

    settings: WorkSettings
    tenant_id: int
    messages: int
    tasks: int
    fault: str


class _Process:
    def __init__(self, work_queues: WorkQueues, caller: Caller, pipe: "Connection[bytes, bytes]") -> None:
        self._work_queues = work_queues
        self._caller = caller
        self._pipe = pipe

    def say(self, *words: str) -> None:
        self._pipe.send_bytes(" ".join(words).encode())

    async def publish(self, keys: list[str]) -> None:
        for key in keys:
            message = NewMessage(body=msgspec.Raw(b'"%s"' % key.encode()), idempotency_key=key)
            (outcome,) = await self._work_queues.messages.publish(self._caller, SCOPE, JOBS, [message])
            assert isinstance(outcome, Published)
            self.say("published", key, outcome.id)

    async def work(self) -> None:
        claims, settling = self._work_queues.claims, self._work_queues.settlements
        while claimed := await claims.claim(self._caller, SCOPE, JOBS, batch_size=3, wait_s=0.5):
            for each in claimed:
                self.say("claimed", each.id)
            items = [SettleItem(id=each.id, claim_token=each.claim_token) for each in claimed]
            for settled in await settling.settle(self._caller, SCOPE, "complete", items, queue=JOBS):
                if settled.state == "completed":
                    self.say("completed", settled.id)


async def _live(orders: Orders, pipe: "Connection[bytes, bytes]") -> None:
    caller = Caller.system("casualty", orders.tenant_id)
    keys = [f"k{n}" for n in range(orders.messages)]
    async with await WorkQueues.open(orders.settings) as work_queues:
        process = _Process(work_queues, caller, pipe)
        first, rest = keys[:2], keys[2:]
        await process.publish(first)
        if orders.settings.claim_path == "index":
            work_queues.ready_index.want((await work_queues.queues.lookup(caller, SCOPE, JOBS)).id)
            await work_queues.ready_index.builder.built.wait_for(timeout=limit(60))
        publishers = [process.publish(rest[at :: orders.tasks]) for at in range(orders.tasks)]
        await asyncio.gather(*publishers, *(process.work() for _ in range(orders.tasks)))


def live(orders: Orders, pipe: "Connection[bytes, bytes]") -> None:
    os.environ["RELEVO_FAULT"] = orders.fault
    asyncio.run(_live(orders, pipe))

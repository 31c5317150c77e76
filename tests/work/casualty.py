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
from relevo.work.consume.settlement import SettleItem
from relevo.work.work_queues import Office, OfficeSettings
from tests.pace import limit
from tests.work.desk import JOBS, SCOPE


class Orders(NamedTuple):
    """What it is to do, and where it is to die."""

    settings: OfficeSettings
    tenant_id: int
    messages: int
    tasks: int
    fault: str


class _Process:
    def __init__(self, office: Office, caller: Caller, pipe: "Connection[bytes, bytes]") -> None:
        self._office = office
        self._caller = caller
        self._pipe = pipe

    def say(self, *words: str) -> None:
        self._pipe.send_bytes(" ".join(words).encode())

    async def publish(self, keys: list[str]) -> None:
        for key in keys:
            message = NewMessage(body=msgspec.Raw(b'"%s"' % key.encode()), idempotency_key=key)
            (outcome,) = await self._office.messages.publish(self._caller, SCOPE, JOBS, [message])
            assert isinstance(outcome, Published)
            self.say("published", key, outcome.id)

    async def work(self) -> None:
        claims, settling = self._office.claims, self._office.settling
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
    async with await Office.open(orders.settings) as office:
        process = _Process(office, caller, pipe)
        first, rest = keys[:2], keys[2:]
        await process.publish(first)
        if orders.settings.claim_path == "index":
            office.order.want((await office.queues.lookup(caller, SCOPE, JOBS)).id)
            await office.order.builder.built.wait_for(timeout=limit(60))
        publishers = [process.publish(rest[at :: orders.tasks]) for at in range(orders.tasks)]
        await asyncio.gather(*publishers, *(process.work() for _ in range(orders.tasks)))


def live(orders: Orders, pipe: "Connection[bytes, bytes]") -> None:
    os.environ["RELEVO_FAULT"] = orders.fault
    asyncio.run(_live(orders, pipe))

"""A process that runs one errand and is killed in the middle of it (SIGKILL at a fault point), started from a fork server."""

import asyncio
import multiprocessing
import os
import signal
from typing import Any, NamedTuple

import msgspec

from relevo.agents.message_router import MessageRouter
from relevo.agents.stream_bridge import StreamBridge
from relevo.agents.webhook_sender import WebhookSender
from relevo.contract.messages import NewMessage
from relevo.work.caller import Caller
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.pace import limit
from tests.patience import until

SCOPE = "main"
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["tests.support.killed_errand", "relevo.work.store.sqlite.driver", "asyncpg", "asyncmy", "aiosqlite"]
)


class Orders(NamedTuple):
    """What is to be done, where, and at which point to die."""

    settings: WorkSettings
    tenant_id: int
    errand: str
    given: dict[str, Any]
    fault: str


async def publish(work_queues: WorkQueues, caller: Caller, key: str) -> None:
    await work_queues.messages.publish(caller, SCOPE, "jobs", [NewMessage(body=msgspec.Raw(b"1"), idempotency_key=key)])


async def route(work_queues: WorkQueues, caller: Caller) -> None:
    await MessageRouter(work_queues).work()


async def bridge(work_queues: WorkQueues, caller: Caller) -> None:
    async def never() -> bool:
        await StreamBridge(work_queues).work()
        return False

    await until(never, timeout=80)  # until it dies: what it waits for is done by others


async def decide(work_queues: WorkQueues, caller: Caller, review_id: str) -> None:
    answer = {"decision": "approve"}
    await work_queues.reviews.decide(caller, SCOPE, review_id, "ada", answer, corrected_body={"corrected": True})


async def claim_review(work_queues: WorkQueues, caller: Caller, review_id: str) -> None:
    await work_queues.reviews.claim(caller, SCOPE, review_id, "ada")


async def deliver(work_queues: WorkQueues, caller: Caller) -> None:
    await WebhookSender(work_queues).work()


async def erase(work_queues: WorkQueues, caller: Caller, subject: str) -> None:
    await work_queues.erasures.start(caller, SCOPE, subject)


ERRANDS = {each.__name__: each for each in (publish, route, bridge, decide, claim_review, deliver, erase)}


async def _live(orders: Orders) -> None:
    async with await WorkQueues.open(orders.settings) as work_queues:
        caller = Caller.system("casualty", orders.tenant_id)
        await ERRANDS[orders.errand](work_queues, caller, **orders.given)  # pyright: ignore[reportCallIssue]


def live(orders: Orders) -> None:
    os.environ["RELEVO_FAULT"] = orders.fault
    asyncio.run(_live(orders))


async def killed(work_queues: WorkQueues, tenant_id: int, errand: str, point: str, **given: Any) -> None:
    """Has a process on the same database run an errand, and die at this point."""
    process = FORKS.Process(
        target=live, args=(Orders(work_queues.settings, tenant_id, errand, given, f"{point}:kill"),)
    )
    process.start()
    try:
        await asyncio.to_thread(process.join, limit(90))
        assert process.exitcode == -signal.SIGKILL, (
            f"{errand} did not come to {point}: it ended with {process.exitcode}"
        )
    finally:
        process.kill()

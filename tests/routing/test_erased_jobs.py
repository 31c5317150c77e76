"""A message that became a job of a stream queue is erased there too."""

import asyncio
from typing import Any

import pytest

from relevo.agents.outbox_relay import OutboxRelay
from relevo.agents.stream_bridge import StreamBridge
from relevo.contract.erasures import Erasure
from relevo.engine.job.job import Job
from relevo.errors import UnrecoverableError
from relevo.work.routing.rule import Route
from tests.patience import until
from tests.routing.test_bridge import Crew
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Client, Server
from tests.support.desk import SCOPE, Desk

WORD = "Zyxomma-petiolatum"


@pytest.fixture
def desk(bridge_desk: Desk, key_leaks: KeyLeaks) -> Desk:
    key_leaks.allow("*work.acme*")
    return bridge_desk


@pytest.fixture
def crew(queue_name: str, valkey: Server) -> Crew:
    return Crew(queue_name, valkey.url)


async def routed(desk: Desk, queue_name: str) -> str:
    await desk.rule(Route(stream_queue=queue_name))
    message_id = await desk.id_of({"says": WORD}, labels={"subject": "ada"})
    await StreamBridge(desk.work_queues).work()
    return message_id


async def erase(desk: Desk) -> Erasure:
    return await desk.work_queues.erasures.start(desk.caller, SCOPE, "ada")


async def in_redis(raw: Client) -> list[bytes]:
    """The keys that say the word."""
    found: list[bytes] = []
    async for key in raw.scan_iter():
        said: Any = await raw.dump(key)
        kind = await raw.type(key)
        if kind == b"stream":
            said = str(await raw.xrange(key)).encode()
        elif kind == b"zset":
            said = str(await raw.zrange(key, 0, -1)).encode()
        if said is not None and WORD.encode() in said:
            found.append(key)
    return found


async def test_a_job_that_waits_is_gone(desk: Desk, queue_name: str, raw: Client, valkey: Server) -> None:
    message_id = await routed(desk, queue_name)
    assert await in_redis(raw) != []
    done = await erase(desk)
    assert (done.state, await in_redis(raw)) == ("done", [])
    await StreamBridge(desk.work_queues).work()
    assert await in_redis(raw) == []
    assert (await desk.row(message_id))["state"] == "cancelled"


async def test_reasons_in_the_events_are_gone(
    desk: Desk, queue_name: str, crew: Crew, raw: Client, valkey: Server
) -> None:
    message_id, bridge = await routed(desk, queue_name), StreamBridge(desk.work_queues)

    async def refuse(job: Job) -> None:
        raise UnrecoverableError(f"cannot read {WORD}")

    async def dead() -> bool:
        await bridge.work()
        return (await desk.row(message_id))["state"] == "dead"

    await crew.run(refuse, dead)
    relay = OutboxRelay(desk.work_queues)
    await relay.work()
    await relay.close()
    assert await in_redis(raw) != []
    done = await erase(desk)
    assert (done.state, await in_redis(raw)) == ("done", [])


async def test_an_erasure_is_not_over_while_a_worker_has_the_job(
    desk: Desk, queue_name: str, crew: Crew, raw: Client, valkey: Server
) -> None:
    await routed(desk, queue_name)
    begun = asyncio.Event()

    async def work(job: Job) -> None:
        begun.set()
        await asyncio.Event().wait()

    found: list[Erasure] = []

    async def over() -> bool:
        await begun.wait()
        if not found:
            found.append(await erase(desk))
        await desk.work_queues.erasures.advance(found[0].id)
        return (await desk.work_queues.erasures.get(desk.caller, SCOPE, found[0].id)).state == "done"

    await crew.run(work, over)
    assert found[0].state == "running"
    await until(lambda: _nothing(raw))


async def _nothing(raw: Client) -> bool:
    return await in_redis(raw) == []

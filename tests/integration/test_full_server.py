"""A server that has reached `maxmemory` refuses writes: outcomes are kept until there is room, and then they are all there."""

import asyncio

import pytest

from relevo import Job, UnrecoverableError
from relevo.errors import ServerRefused
from tests.conftest import Launch
from tests.integration.staff import Staff
from tests.pace import limit
from tests.patience import turn
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, SingleServer
from tests.support.runs import Runs

KINDS = pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey], ids=lambda kind: kind.name)


@KINDS
async def test_outcomes_outlast_a_full_server(kind: type[SingleServer], launch: Launch, staff: Staff) -> None:
    server = launch(kind)
    queue, began, gate = await staff.queue(server.url), Runs(), asyncio.Event()

    async def handler(job: Job) -> str:
        await began(job)
        await gate.wait()
        if job.name == "again" and job.attempt == 0:
            raise RuntimeError("again")
        if job.name == "never":
            raise UnrecoverableError("never")
        return "an answer"

    worker = await staff.worker(server.url, handler, store_results=True, claim_min_idle_ms=500)
    jobs = [await queue.add(name, {}, backoff=1) for name in ("ok", "again", "never")]
    await began.until(3)
    server.call("CONFIG", "SET", "maxmemory", "1")
    flushed = asyncio.ensure_future(worker.settled.wait_for())
    await turn()
    gate.set()
    await flushed
    server.call("CONFIG", "SET", "maxmemory", "0")
    await worker.until(done=2, retried=1, dead=1)
    assert await jobs[0].wait_for_result(timeout=limit(10)) == "an answer"
    assert await jobs[1].wait_for_result(timeout=limit(10)) == "an answer"
    assert [letter["reason"] for letter in await queue.peek_dlq()] == ["unrecoverable"]
    assert sorted(began.names) == ["again", "again", "never", "ok"]


@KINDS
async def test_an_add_to_a_full_server_is_refused_and_said(
    kind: type[SingleServer], launch: Launch, staff: Staff
) -> None:
    server = launch(kind)
    queue = await staff.queue(server.url)
    await queue.add("before", {})
    server.call("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(ServerRefused, match="OOM"):
        await queue.add("refused", {})
    with pytest.raises(ServerRefused, match="OOM"):
        await queue.add("refused", {}, delay_ms=10_000)
    server.call("CONFIG", "SET", "maxmemory", "0")
    await queue.add("after", {})
    runs = Runs()
    worker = await staff.worker(server.url, runs)
    await worker.until(done=2)
    assert runs.names == ["before", "after"]

"""A server that answers and refuses: every call ends within its wait, in the server's own words, and the log stays short."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import pytest

from relevo import Flow, Queue, RepeatPattern
from relevo.errors import ConnectionLost, ServerRefused
from relevo.wire.keys import QueueKeys
from tests.conftest import Launch
from tests.integration.staff import Staff
from tests.pace import limit
from tests.patience import until
from tests.servers.process import free_port
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, Server, SingleServer
from tests.support.runs import Runs

KINDS = pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey], ids=lambda kind: kind.name)
WAIT_S = 1.0


def be_a_replica(server: Server) -> None:
    server.call("REPLICAOF", "127.0.0.1", free_port())


def want_replicas(server: Server) -> None:
    server.call("CONFIG", "SET", "min-replicas-to-write", 1)


def be_as_before(server: Server) -> None:
    server.call("REPLICAOF", "NO", "ONE")
    server.call("CONFIG", "SET", "min-replicas-to-write", 0)


REFUSALS: dict[str, Callable[[Server], None]] = {"READONLY": be_a_replica, "NOREPLICAS": want_replicas}
REFUSING = pytest.mark.parametrize("word", REFUSALS)


async def _start_flow(queue: Queue) -> None:
    flow = Flow()
    flow.add("job", {})
    await queue.start_flow(flow)


WRITES: dict[str, Callable[[Queue], Awaitable[object]]] = {
    "add": lambda queue: queue.add("job", {}),
    "add_bulk": lambda queue: queue.add_bulk([{"name": "job", "data": 1}] * 200),
    "add delayed": lambda queue: queue.add("job", {}, delay_ms=60_000),
    "add by id": lambda queue: queue.add("job", {}, job_id="one"),
    "add to a lane": lambda queue: queue.add("job", {}, lane="a"),
    "flow": _start_flow,
    "pause": lambda queue: queue.pause(),
    "cancel": lambda queue: queue.cancel("one"),
    "schedule": lambda queue: queue.upsert_repeatable_job("job", {}, repeat=RepeatPattern.every(60_000)),
}


def said(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if words in record.getMessage()]


@KINDS
@REFUSING
async def test_every_write_ends_within_its_wait_with_the_servers_words_and_two_lines_are_logged(
    kind: type[SingleServer], word: str, launch: Launch, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "relevo")
    server = launch(kind)
    async with Queue(queue_name, redis_url=server.url, wait_s=WAIT_S) as queue:
        await queue.add("before", {})
        REFUSALS[word](server)
        began = time.monotonic()
        async with asyncio.timeout(limit(20)):
            ends = await asyncio.gather(*(write(queue) for write in WRITES.values()), return_exceptions=True)
        took = time.monotonic() - began
        told = dict(zip(WRITES, ends, strict=True))
        # Lost with the connection that another's refusal ended: it may have been taken before, and is not sent again.
        assert all(isinstance(end, ServerRefused | ConnectionLost) and word in str(end) for end in ends), told
        assert isinstance(told["add"], ServerRefused)
        assert isinstance(told["add by id"], ServerRefused)
        assert WAIT_S / 2 < took < limit(10)
        assert server.call("XLEN", QueueKeys(queue_name).stream) == 1, "nothing was added"
        assert len(said(caplog, "refuses for now")) == 1, caplog.text
        assert said(caplog, "link to") == [], "a server that answers is not lost"
        be_as_before(server)
        await queue.add("after", {})
        assert len(said(caplog, "accepts again")) == 1, caplog.text
        assert server.call("XLEN", QueueKeys(queue_name).stream) == 2


@KINDS
@REFUSING
async def test_an_add_waits_for_a_server_that_refuses_for_a_while_and_workers_go_on(
    kind: type[SingleServer], word: str, launch: Launch, staff: Staff, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "relevo")
    server, runs = launch(kind), Runs()
    queue = await staff.queue(server.url)
    worker = await staff.worker(server.url, runs)
    await queue.add("before", {})
    await worker.until(done=1)
    REFUSALS[word](server)
    waiting = asyncio.ensure_future(queue.add("meanwhile", {}))
    by_id = asyncio.ensure_future(queue.add("meanwhile", {}, job_id="one"))
    await until(lambda: len(said(caplog, f"refuses for now: {word}")) >= 1)
    assert (waiting.done(), by_id.done()) == (False, False)
    be_as_before(server)
    await waiting
    await by_id
    await worker.until(done=3)
    assert sorted(runs.names) == ["before", "meanwhile", "meanwhile"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://:secret@127.0.0.1:{port}/0", "without any password"),
        ("redis://127.0.0.1:{port}/99", "DB index"),
        ("rediss://127.0.0.1:{port}/0", "TLS"),
    ],
    ids=["a password where none is set", "no such database", "TLS to a plain port"],
)
async def test_an_address_that_cannot_work_is_said_at_once(
    redis7: Server, queue_name: str, url: str, words: str
) -> None:
    port = redis7.url.rpartition(":")[2].partition("/")[0]
    async with Queue(queue_name, redis_url=url.format(port=port), wait_s=300) as queue:
        with pytest.raises(ServerRefused, match=words) as caught:
            async with asyncio.timeout(limit(8)):
                await queue.add("job", {})
    assert "secret" not in str(caught.value)


async def test_a_queue_closes_at_once_when_nobody_waits_for_its_adds_any_more(queue_name: str) -> None:
    queue = Queue(queue_name, redis_url=f"redis://127.0.0.1:{free_port()}", wait_s=300)
    adding = [
        asyncio.ensure_future(queue.add("job", {})),
        asyncio.ensure_future(queue.add_bulk([{"name": "job"}] * 200)),
    ]
    await asyncio.wait(adding, timeout=0.1)
    for each in adding:
        each.cancel()
    await asyncio.wait(adding)
    async with asyncio.timeout(limit(10)):
        await queue.close()

"""Redis goes away and comes back: producers and workers resume by themselves, and say so."""

import asyncio
import logging
import time

import pytest

from relevo import Queue
from relevo.errors import ServerRefused, Unreachable
from relevo.wire.keys import QueueKeys
from tests.conftest import Launch
from tests.integration.staff import Staff
from tests.pace import limit
from tests.patience import turn, until
from tests.servers.acl import AclUser
from tests.servers.process import free_port
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, Server, SingleServer
from tests.support.held import HeldRuns
from tests.support.runs import Runs
from tests.support.watched import WatchedWorker

KINDS = pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey], ids=lambda kind: kind.name)


async def until_health(worker: WatchedWorker, can_claim: bool) -> None:
    """Health is asked, not told: a probe does the same."""
    await until(lambda: worker.health().can_claim is can_claim)


def tries(purpose: str, caplog: pytest.LogCaptureFixture) -> int:
    """How often a link of this purpose has tried in vain to open."""
    said = [record.getMessage() for record in caplog.records if record.name == "relevo.link"]
    return sum(each.startswith(f"{purpose} link") and "not open yet" in each for each in said)


@KINDS
async def test_workers_and_producers_resume_after_redis_was_killed_and_restarted(
    kind: type[SingleServer], launch: Launch, staff: Staff, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "relevo.link")
    server = launch(kind, appendonly=True)
    queue, runs = await staff.queue(server.url), Runs()
    worker = await staff.worker(server.url, runs, claim_min_idle_ms=1000)
    await queue.add("before", {})
    await worker.until(done=1)
    assert worker.health().can_claim
    server.kill()
    await until_health(worker, False)
    assert worker.health().reason
    waiting = asyncio.ensure_future(queue.add("meanwhile", {}))
    delayed = asyncio.ensure_future(queue.add("later", {}, delay_ms=10, job_id="later"))
    await until(lambda: tries("queue", caplog) >= 3)  # it is away for a while, and the adds wait
    assert (waiting.done(), delayed.done()) == (False, False)
    server.restart()
    await waiting
    await delayed
    await queue.add("after", {})
    await worker.until(done=4, timeout=30)
    assert sorted(runs.names) == ["after", "before", "later", "meanwhile"]
    await until_health(worker, True)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert any("lost; reconnecting" in message for message in said)
    assert any("is back after" in message for message in said)


async def test_a_job_running_through_a_restart_of_redis_runs_once(launch: Launch, staff: Staff) -> None:
    server = launch(Redis86, appendonly=True)
    queue, held = await staff.queue(server.url), HeldRuns()
    worker = await staff.worker(server.url, held, claim_min_idle_ms=1000)
    await queue.add("job", {})
    await held.until(1)
    server.kill()
    held.let_go()
    # The subject is time that passes while nobody can say anything to the server: its lease has lapsed when Redis is back.
    await asyncio.sleep(1.2)
    server.restart()
    async with asyncio.timeout(limit(20)):
        while worker.held or server.call("XLEN", QueueKeys(staff.name).stream):
            await worker.settled.wait_for()
    assert len(held.jobs) == 1


async def test_a_server_that_stands_still_costs_no_second_run(launch: Launch, staff: Staff) -> None:
    server = launch(Redis86)
    queue, held = await staff.queue(server.url), HeldRuns()
    worker = await staff.worker(server.url, held, claim_min_idle_ms=500)
    await queue.add("job", {})
    await held.until(1)
    server.pause()
    await asyncio.sleep(1.2)  # the subject: more than twice the idle limit in which nobody could renew
    server.resume()
    for _ in range(3):
        await worker.leases.renewed.wait_for()
    held.let_go()
    await worker.until(done=1)
    assert len(held.jobs) == 1
    await queue.add("after", {})
    await worker.until(done=2)


@KINDS
async def test_every_script_is_there_again_after_script_flush(
    kind: type[SingleServer], launch: Launch, staff: Staff
) -> None:
    server = launch(kind)
    flush = ("SCRIPT", "FLUSH", "SYNC")
    queue, capped = await staff.queue(server.url), await staff.queue(server.url, max_stream_len=10)
    runs = Runs(fail=lambda job: RuntimeError("again") if job.name == "fails" and job.attempt == 0 else None)
    worker = await staff.worker(server.url, runs, claim_min_idle_ms=300)
    server.call(*flush)  # while idle
    await capped.add("counted", {})
    await worker.until(done=1)
    server.call(*flush)
    await queue.add("once", {}, job_id="once")
    await worker.until(done=2)
    server.call(*flush)
    await queue.add("delayed", {}, delay_ms=30, job_id="delayed")
    await worker.until(done=3)  # promote.lua too
    server.call(*flush)
    await queue.add("fails", {}, attempts=2, backoff=1)
    await worker.until(done=4)
    server.call(*flush)
    await queue.add("fails", {}, attempts=1)
    await worker.until(dead=1)
    await queue.add("parked", {}, delay_ms=600_000, job_id="parked")
    server.call(*flush)
    assert await queue.cancel_delayed("parked")
    server.call(*flush)
    assert await queue.replay_dlq() == 1
    server.call(*flush)
    await worker.leases.renewed.wait_for()
    await worker.stalled_detector.scanned.wait_for()
    await worker.until(dead=2)


async def test_a_worker_leaves_in_order_after_script_flush(redis86: Server, staff: Staff) -> None:
    queue, held = await staff.queue(redis86.url), HeldRuns()
    worker = await staff.worker(redis86.url, held, shutdown_deadline_s=0)
    job = await queue.add("job", {})
    await held.until(1)
    redis86.call("SCRIPT", "FLUSH", "SYNC")
    worker.close()
    await worker.run()
    stream = QueueKeys(staff.name).stream
    assert held.cut == [job.id]
    assert redis86.call("XINFO", "CONSUMERS", stream, "default") == []
    assert (redis86.call("XLEN", stream), redis86.call("XPENDING", stream, "default")[0]) == (1, 0)


@pytest.mark.parametrize("purpose", ["read", "settle", "control", "lease", "queue"])
async def test_a_killed_connection_is_made_again(purpose: str, redis86: Server, staff: Staff) -> None:
    queue, runs = await staff.queue(redis86.url), Runs()
    worker = await staff.worker(redis86.url, runs, claim_min_idle_ms=500)
    await queue.add("before", {})
    await worker.until(done=1)
    await worker.leases.renewed.wait_for()
    for line in redis86.call("CLIENT", "LIST").splitlines():
        fields = dict(part.split(b"=", 1) for part in line.split(b" ") if b"=" in part)
        if fields[b"name"] == f"relevo-{purpose}".encode():
            redis86.call("CLIENT", "KILL", "ID", fields[b"id"])
            break
    else:
        pytest.fail(f"no connection is named relevo-{purpose}")
    await queue.add("after", {})
    await queue.add("later", {}, delay_ms=20)
    await worker.until(done=3)
    await worker.leases.renewed.wait_for()
    assert sorted(runs.names) == ["after", "before", "later"]


@KINDS
async def test_a_stream_deleted_under_a_worker_is_made_again(
    kind: type[SingleServer], launch: Launch, staff: Staff
) -> None:
    server = launch(kind)
    queue, runs = await staff.queue(server.url), Runs()
    worker = await staff.worker(server.url, runs, claim_min_idle_ms=500)
    joined = asyncio.ensure_future(worker.reader.joined.wait_for())
    await turn()
    server.call("DEL", QueueKeys(staff.name).stream)
    await joined
    await queue.add("after", {})
    await worker.until(done=1)
    assert runs.names == ["after"]


async def test_an_add_waits_for_redis_and_gives_up_in_time_with_the_address_and_no_password(queue_name: str) -> None:
    port = free_port()
    async with Queue(queue_name, redis_url=f"redis://:hunter2@127.0.0.1:{port}", wait_s=0.3) as queue:
        began = time.monotonic()
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port}") as caught:
            await queue.add("job", {})
    assert 0.25 < time.monotonic() - began < limit(10)
    assert "hunter2" not in str(caught.value)


async def test_a_wrong_password_is_said_at_once_and_not_repeated(redis7: Server, queue_name: str) -> None:
    with AclUser(redis7, password="right") as user:
        url = user.url.replace("right", "hunter2")
        async with Queue(queue_name, redis_url=url) as queue:
            began = time.monotonic()
            with pytest.raises(ServerRefused, match="WRONGPASS") as caught:
                await queue.add("job", {})
            assert time.monotonic() - began < limit(10)
    assert "hunter2" not in str(caught.value)


async def test_a_worker_that_may_not_sign_in_says_so_and_starts_when_it_may(
    redis7: Server, staff: Staff, caplog: pytest.LogCaptureFixture
) -> None:
    queue = await staff.queue(redis7.url)
    with AclUser(redis7, password="right") as user:
        redis7.call("ACL", "SETUSER", "app", "resetpass", ">other")
        starting = asyncio.ensure_future(staff.worker(user.url, Runs()))
        await until(lambda: any("WRONGPASS" in record.getMessage() for record in caplog.records))
        redis7.call("ACL", "SETUSER", "app", ">right")
        worker = await starting
        await queue.add("job", {})
        await worker.until(done=1)
        await staff.close()

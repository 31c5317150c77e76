"""Queues that move: a replica takes over, a cluster moves a slot. And ways in: TLS, and users with few rights."""

import asyncio

import pytest

from relevo.wire.keys import QueueKeys
from tests.conftest import Launch
from tests.integration.staff import Staff
from tests.pace import limit
from tests.patience import until
from tests.servers.acl import AclUser
from tests.servers.cluster import RedisCluster
from tests.servers.process import ServerProcess
from tests.servers.sentinel import Sentinel
from tests.servers.server import Redis7, Redis86, SingleServer
from tests.servers.tls import TlsRedis
from tests.support.held import HeldRuns
from tests.support.runs import Runs

# docs/acl.md tells these to operators.
MINIMAL = (
    "~{chasqui:*",
    "+@connection",
    "+@read",
    "+@write",
    "+@stream",
    "+@scripting",
    "+@transaction",
    "+time",
    "-@dangerous",
)


async def test_worker_and_producer_follow_the_new_master(sentinel: Sentinel, staff: Staff) -> None:
    queue, runs = await staff.queue(sentinel.url), Runs()
    worker = await staff.worker(sentinel.url, runs, claim_min_idle_ms=1000)
    await queue.add("before", {})
    await worker.until(done=1)
    await asyncio.to_thread(sentinel.failover)
    await queue.add("after", {})
    await worker.until(done=2, timeout=40)
    assert runs.names[-1] == "after"


async def test_worker_and_producer_follow_when_the_master_dies(sentinel: Sentinel, staff: Staff) -> None:
    queue, runs = await staff.queue(sentinel.url), Runs()
    worker = await staff.worker(sentinel.url, runs, claim_min_idle_ms=1000)
    await queue.add("before", {})
    await worker.until(done=1)
    before = sentinel.processes[0].port
    sentinel.kill()
    adding = asyncio.ensure_future(queue.add("meanwhile", {}))
    await asyncio.to_thread(sentinel.wait_for_another_master, before)
    await adding
    await worker.until(done=2, timeout=40)
    assert runs.names[-1] == "meanwhile"
    sentinel.restart()


async def test_links_leave_a_master_that_has_handed_over_before_it_hangs_up(sentinel: Sentinel, staff: Staff) -> None:
    """It takes writes for ten seconds more, and forgets them when the sentinels make it a replica: of 1,689 acknowledged adds
    965 were lost. Here it is kept from becoming one."""
    queue = await staff.queue(sentinel.url)
    worker = await staff.worker(sentinel.url, Runs())
    await queue.add("before", {})
    await worker.until(done=1)
    (old,) = sentinel.processes
    old.call("ACL", "SETUSER", "default", "-replicaof", "-slaveof")
    try:
        await asyncio.to_thread(sentinel.failover)
        await until(lambda: b"name=relevo-" not in old.call("CLIENT", "LIST"))
        assert old.call("ROLE")[0] == b"master"
        await queue.add("after", {})
        await worker.until(done=2)
    finally:
        old.call("ACL", "SETUSER", "default", "+replicaof", "+slaveof")
    await staff.close()
    await asyncio.to_thread(sentinel.wait_ready)


def move_slot(cluster: RedisCluster, tag: bytes) -> ServerProcess:
    """Moves the slot of a tag, with its keys, to the next master; returns the new home."""
    home = cluster.process_of(tag)
    target = cluster.processes[(cluster.processes.index(home) + 1) % 3]
    slot = home.call("CLUSTER", "KEYSLOT", tag)
    ids = {process.port: process.call("CLUSTER", "MYID") for process in cluster.processes}
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[home.port])
    home.call("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.port])
    while keys := home.call("CLUSTER", "GETKEYSINSLOT", slot, 100):
        home.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    for process in (target, home, *cluster.processes):
        process.call("CLUSTER", "SETSLOT", slot, "NODE", ids[target.port])
    return target


@pytest.mark.timeout(90)
async def test_a_queue_is_followed_to_the_node_its_slot_moved_to(launch: Launch, staff: Staff) -> None:
    cluster = launch(RedisCluster)
    keys = QueueKeys(staff.name)
    queue, runs = await staff.queue(cluster.url), Runs()
    worker = await staff.worker(cluster.url, runs, claim_min_idle_ms=1000)
    await queue.add("before", {})
    await worker.until(done=1)
    home = await asyncio.to_thread(move_slot, cluster, keys.tag)
    await queue.add("after", {})
    await queue.add("later", {}, delay_ms=50, job_id="later")
    await worker.until(done=3)
    assert sorted(runs.names) == ["after", "before", "later"]
    assert home.call("XLEN", keys.stream) == 0
    await staff.close()


@pytest.mark.timeout(90)
async def test_jobs_added_and_running_while_their_slot_moves_run_once(launch: Launch, staff: Staff) -> None:
    cluster = launch(RedisCluster)
    keys = QueueKeys(staff.name)
    queue, held = await staff.queue(cluster.url), HeldRuns()
    worker = await staff.worker(cluster.url, held, claim_min_idle_ms=3000)
    running = await queue.add("running", {})
    await held.until(1)
    moving = asyncio.ensure_future(asyncio.to_thread(move_slot, cluster, keys.tag))
    added = [await queue.add("meanwhile", {"n": n}) for n in range(50)]
    home = await moving
    held.let_go()
    async with asyncio.timeout(limit(30)):
        while home.call("XLEN", keys.stream):
            await worker.settled.wait_for()
    assert sorted(held.ids) == sorted([running.id, *(job.id for job in added)])
    await staff.close()


async def test_a_queue_works_over_tls(tls_redis: TlsRedis, staff: Staff) -> None:
    queue = await staff.queue(tls_redis.url)
    worker = await staff.worker(tls_redis.url, Runs(lambda job: job.data["n"] + 1), store_results=True)
    job = await queue.add("job", {"n": 41})
    assert await job.wait_for_result(timeout=limit(10)) == 42
    await worker.until(done=1)


@pytest.mark.parametrize("kind", [Redis86, Redis7], ids=lambda kind: kind.name)
@pytest.mark.parametrize("without", ["", "-client|unblock", "-script|load", "-client|id", "-client|setname"])
async def test_a_user_with_only_the_documented_rights_can_do_everything(
    kind: type[SingleServer], without: str, launch: Launch, staff: Staff
) -> None:
    server = launch(kind)
    rules = (*MINIMAL, without) if without else MINIMAL
    with AclUser(server, rules=rules) as user:
        queue = await staff.queue(user.url)
        runs = Runs(lambda _: 1, fail=lambda job: RuntimeError("no") if job.name == "fails" else None)
        worker = await staff.worker(user.url, runs, claim_min_idle_ms=500, store_results=True)
        job = await queue.add("job", {})
        assert await job.wait_for_result(timeout=limit(10)) == 1
        await queue.add("once", {}, job_id="once")
        await queue.add("later", {}, delay_ms=20, job_id="later")
        await queue.add("fails", {}, attempts=2, backoff=1)
        await worker.until(done=3, retried=1, dead=1)
        assert await queue.replay_dlq() == 1
        await worker.leases.renewed.wait_for()
        await worker.stalled_detector.scanned.wait_for()
        await queue.add("parked", {}, delay_ms=60_000, job_id="parked")
        assert await queue.cancel_delayed("parked")
        await worker.until(dead=2)
        await staff.close()
        stream = QueueKeys(staff.name).stream
        assert server.call("XINFO", "CONSUMERS", stream, "default") == []

"""The registry of queues: whoever opens a queue names it there, on whatever server of a cluster it is."""

from relevo import Queue
from relevo.broker.address import Address
from relevo.engine.service.queue_registry import QueueRegistry
from relevo.wire.keys import REGISTRY, QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.servers.acl import AclUser
from tests.servers.server import Client, Server
from tests.support.runs import Runs


async def test_a_producer_names_its_queue(queue: Queue, raw: Client, queue_name: str) -> None:
    await queue.add("job", 1)
    assert await raw.smembers(REGISTRY) == {queue_name.encode()}


async def test_a_worker_names_its_queue(worker_of: WorkerOf, raw: Client, queue_name: str) -> None:
    async with worker_of(Runs()) as worker:
        await worker._settle_link.ready()  # pyright: ignore[reportPrivateUsage] - the connection that says it
        assert await raw.smembers(REGISTRY) == {queue_name.encode()}


async def test_an_obliterated_queue_is_not_named_any_more(queue: Queue, raw: Client) -> None:
    await queue.add("job", 1)
    await queue.obliterate()
    assert await raw.smembers(REGISTRY) == set()


async def test_who_writes_to_many_queues_names_each_once(server: Server, raw: Client, queue_name: str) -> None:
    registry = QueueRegistry(Address.parse(server.url))
    try:
        await registry.add(queue_name)
        await registry.add(f"{queue_name}-b")
        assert await raw.smembers(REGISTRY) == {queue_name.encode(), f"{queue_name}-b".encode()}
        await raw.delete(REGISTRY)
        await registry.add(queue_name)
        assert await raw.exists(REGISTRY) == 0  # told already
        await registry.remove(queue_name)
        await registry.add(queue_name)
        assert await raw.smembers(REGISTRY) == {queue_name.encode()}
    finally:
        await registry.close()


async def test_a_user_of_one_queue_alone_adds_without_being_named(server: Server, queue_name: str) -> None:
    rules = (f"~{QueueKeys(queue_name).tag.decode()}*", "+@all", "-@admin", "-@dangerous")
    if server.name == "cluster":  # its users would have to be made on every node
        return
    with AclUser(server, rules=rules) as user:
        async with Queue(queue_name, redis_url=user.url) as queue:
            await queue.add("job", 1)
            assert await queue.count() == 1
    assert server.call("SMEMBERS", REGISTRY) == []

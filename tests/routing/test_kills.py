"""Whoever routes, or carries messages to stream queues and back, is killed at each point: one place, one job, one outcome."""

import asyncio
from typing import Any

import pytest

from relevo.agents.stream_bridge import StreamBridge
from relevo.engine.job.job import Job
from relevo.work.faults import ROUTING_POINTS
from relevo.work.routing.rule import Route
from tests.patience import until
from tests.routing.test_bridge import Crew, dead_job
from tests.servers.server import Server
from tests.support.desk import SCOPE, Desk
from tests.support.killed_errand import killed

pytestmark = pytest.mark.timeout(200)

ROUTE = [point for point in ROUTING_POINTS if point.startswith("route.")]


@pytest.fixture
def crew(queue_name: str, valkey: Server) -> Crew:
    return Crew(queue_name, valkey.url)


@pytest.mark.parametrize("point", ["publish.begun", "publish.written", "publish.committed"])
async def test_a_publish_with_a_rule_killed_at_this_point_is_in_one_place(desk: Desk, point: str) -> None:
    await desk.queue("target")
    await desk.queue("log")
    await desk.rule(Route(queue="log", copy=True), Route(queue="target"))
    await killed(desk.work_queues, desk.caller.tenant_id, "publish", point, key="k1")

    async def published() -> bool:  # whoever had no answer publishes again, under the same key
        await desk.put(1, idempotency_key="k1")
        return True

    await until(published)
    assert (await desk.bodies("target"), await desk.bodies("log"), await desk.bodies("jobs")) == ([1], [1], [])
    assert [(await desk.depth(queue)).pending for queue in ("target", "log", "jobs")] == [1, 1, 0]


@pytest.mark.parametrize("point", ROUTE)
async def test_a_router_killed_at_this_point_copies_once(desk: Desk, point: str) -> None:
    await desk.queue("log")
    await desk.rule(Route(queue="log", copy=True), on="message_completed", queue="jobs")
    await desk.id_of(1)
    await desk.settle("complete", await desk.claim())
    await relay(desk)
    await killed(desk.work_queues, desk.caller.tenant_id, "route", point)

    async def copied() -> bool:  # agents pass over rows that the dead one's transaction still holds
        await desk.route()
        return await desk.bodies("log") != []

    await until(copied)
    await desk.route()
    assert await desk.bodies("log") == [1]
    assert (await desk.depth("log")).pending == 1


async def relay(desk: Desk) -> None:
    from relevo.agents.outbox_relay import OutboxRelay

    agent = OutboxRelay(desk.work_queues)
    await agent.work()
    await agent.close()


@pytest.mark.parametrize("point", ["bridge.added", "bridge.heard", "bridge.settled"])
async def test_a_bridge_killed_at_this_point_makes_one_job_and_brings_one_outcome(
    bridge_desk: Desk, queue_name: str, crew: Crew, point: str
) -> None:
    desk = bridge_desk
    await desk.rule(Route(stream_queue=queue_name))
    message_id = await desk.id_of(1)
    seen: list[str] = []

    async def work(job: Job) -> int:
        seen.append(job.id)
        return 7

    dying = asyncio.create_task(killed(desk.work_queues, desk.caller.tenant_id, "bridge", point))

    async def completed() -> bool:
        if not dying.done():
            return False
        await StreamBridge(desk.work_queues).work()
        return (await desk.row(message_id))["state"] == "completed"

    await crew.run(work, completed)
    await dying
    await StreamBridge(desk.work_queues).work()
    assert seen == [message_id]
    assert (await desk.history(message_id)).count("completed") == 1
    assert (await desk.depth()).claimed == 0


async def test_a_bridge_killed_after_it_sent_a_letter_back_sends_it_once(
    bridge_desk: Desk, queue_name: str, crew: Crew
) -> None:
    desk = bridge_desk
    entry = await dead_job(desk, crew, queue_name, {"to": "adda"})
    review = await desk.work_queues.stream_letters.review(desk.caller, SCOPE, queue_name, entry)
    answer = {"decision": "approve"}
    await desk.work_queues.reviews.decide(desk.caller, SCOPE, review.id, "ada", answer, corrected_body={"to": "ada"})
    await killed(desk.work_queues, desk.caller.tenant_id, "bridge", "bridge.replayed")
    seen: list[Any] = []

    async def work(job: Job) -> None:
        seen.append(job.data)

    async def done() -> bool:
        return (await StreamBridge(desk.work_queues).work()).items == 0 and bool(seen)

    await crew.run(work, done)
    assert seen == [{"to": "ada"}]
    queue = desk.work_queues.streams.get(queue_name)
    assert (await queue.dead_letters.count(), await queue.count()) == (0, 0)

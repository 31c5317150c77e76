"""Lost answers to adds with a lane or a dedup key, and to the start of a flow: done once, even if the job is finished."""

import asyncio
from typing import Any

import pytest

from relevo import Dedup, Flow, Job, Queue
from tests.integration.staff import Staff
from tests.pace import limit
from tests.servers.proxy import Fate, Proxy
from tests.servers.server import Server
from tests.support.runs import Runs


@pytest.mark.parametrize(
    "options",
    [{"lane": "a"}, {"dedup": Dedup.drop("key")}, {"lane": "a", "job_id": "mine"}, {"lane": "a", "delay_ms": 1}],
    ids=["lane", "dedup", "lane and id", "lane and delay"],
)
async def test_an_add_is_done_once_though_its_job_was_finished_before_the_answer_was_asked_for_again(
    options: dict[str, Any], redis86: Server, staff: Staff, queue_name: str
) -> None:
    runs = Runs()
    worker = await staff.worker(redis86.url, runs)
    async with Proxy(redis86.url) as proxy, Queue(queue_name, redis_url=proxy.url) as queue:
        await queue.stats()  # connected
        proxy.hold_replies()
        adding = asyncio.create_task(queue.add("job", 1, **options))
        await worker.until(done=1)
        proxy.cut()
        proxy.release()
        job = await asyncio.wait_for(adding, limit(20))
        await queue.add("last", 2)
        await worker.until(done=2)
    assert runs.data == [1, 2]
    assert job.id == runs.ids[0]


@pytest.mark.parametrize("fate", [Fate.CUT_BEFORE, Fate.CUT_AFTER], ids=lambda fate: fate.name)
async def test_a_flow_is_started_once(fate: Fate, redis86: Server, staff: Staff, queue_name: str) -> None:
    flow = Flow()
    flow.add("first", 1)
    flow.add("second", 2, after=["first"])
    runs = Runs(answer=_answer)
    await staff.worker(redis86.url, runs)
    async with Proxy(redis86.url) as proxy, Queue(queue_name, redis_url=proxy.url) as queue:
        await queue.stats()
        proxy.fates.append(fate)
        run = await queue.start_flow(flow)
        assert proxy.cuts == 1
        state = await run.wait(timeout=limit(20))
    assert (state.state, runs.names) == ("done", ["first", "second"])


def _answer(job: Job) -> Any:
    return job.data

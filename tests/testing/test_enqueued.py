"""Assertions about what is in a queue, and what they say when they fail."""

from datetime import timedelta
from typing import Any

import pytest

from relevo import Queue, Tasks
from relevo.testing import assert_enqueued, assert_not_enqueued, enqueued

tasks: Tasks[None] = Tasks()


@tasks.task()
async def send(to: str, *, subject: str) -> None: ...


async def test_a_job_is_found_by_name_and_by_a_part_of_its_data(relevo_queue: Queue) -> None:
    job = await relevo_queue.add("welcome", {"to": {"name": "Ada", "id": 7}, "n": 1})
    (found,) = await assert_enqueued(relevo_queue, "welcome", {"to": {"name": "Ada"}}, count=1)
    assert found.job.id == job.id
    await assert_enqueued(relevo_queue)
    await assert_not_enqueued(relevo_queue, "goodbye")


async def test_the_call_of_a_task_is_found(relevo_queue: Queue) -> None:
    await send.enqueue(relevo_queue, "ada@example.org", subject="Hello")
    await assert_enqueued(relevo_queue, send, {"args": ["ada@example.org"], "kwargs": {"subject": "Hello"}})
    await assert_not_enqueued(relevo_queue, send, {"args": ["bob@example.org"]})


async def test_jobs_in_a_frame_are_found_like_others(relevo_queue: Queue) -> None:
    jobs = await relevo_queue.add_bulk([{"name": "count", "data": number} for number in range(3)], frame=3)
    found = await assert_enqueued(relevo_queue, "count", count=3)
    assert [(each.job.id, each.job.data) for each in found] == [(job.id, job.data) for job in jobs]


async def test_delayed_jobs_and_jobs_in_lanes_are_in_the_queue_too(relevo_queue: Queue) -> None:
    await relevo_queue.add("later", 1, delay=timedelta(hours=2))
    for number in range(3):
        await relevo_queue.add("laned", number, lane="tenant")
    (later,) = await assert_enqueued(relevo_queue, "later", delayed=True)
    assert later.due_in is not None
    assert timedelta(hours=1, minutes=55) < later.due_in <= timedelta(hours=2)
    await assert_enqueued(relevo_queue, "laned", count=3, lane="tenant", delayed=False)
    assert len(await enqueued(relevo_queue)) == 4


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"name": "reminder"}, r"no job 'reminder' is in queue '.*'; it holds 2 jobs:"),
        ({"name": "welcome", "data": {"to": "eve"}}, r"'welcome' \{'to': 'ada'\}: data\['to'\] is 'ada'"),
        ({"name": "welcome", "data": {"cc": 1}}, "data has no 'cc'"),
        ({"name": "welcome", "delayed": True}, "it is not delayed"),
        ({"lane": "blue"}, "its lane is None"),
        ({"name": "welcome", "count": 3}, r"2 jobs 'welcome' in queue '.*', not 3"),
    ],
)
async def test_a_failure_tells_how_the_jobs_there_differ(
    relevo_queue: Queue, wanted: dict[str, Any], said: str
) -> None:
    await relevo_queue.add("welcome", {"to": "ada"})
    await relevo_queue.add("welcome", {"to": "bob"})
    with pytest.raises(AssertionError, match=said):
        await assert_enqueued(relevo_queue, **wanted)


async def test_an_empty_queue_is_called_empty(relevo_queue: Queue) -> None:
    with pytest.raises(AssertionError, match=r"no job at all is in queue '.*'; the queue is empty"):
        await assert_enqueued(relevo_queue)


async def test_what_should_not_be_there_is_shown(relevo_queue: Queue) -> None:
    await relevo_queue.add("welcome", {"to": "ada"})
    with pytest.raises(AssertionError, match=r"1 job 'welcome' in queue '.*', not 0;(.|\n)*this one matches"):
        await assert_not_enqueued(relevo_queue, "welcome")

"""Processes with agents are killed, between any two steps: claims come back, nothing is lost or done twice."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import func, select, update

from relevo.agents.message_archiver import MessageArchiver
from relevo.agents.replay_runner import ReplayRunner
from relevo.agents.runs import Runs
from relevo.engine.events.queue_events import QueueEvents
from relevo.work.faults import AGENT_POINTS
from relevo.work.retention.counter_rollup import FOLDED_SLOT
from relevo.work.store.tables import archive, outbox, tallies
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.pace import limit
from tests.servers.child import Child
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server
from tests.support.desk import SCOPE, Desk, a_desk, emptied, tallied

pytestmark = pytest.mark.timeout(200)  # several interpreters are started, on a machine that may be busy


@asynccontextmanager
async def serving(*arguments: str, fault: str = "") -> AsyncGenerator[tuple[Child, str]]:
    """A process with agents, and its node's name; killed at the end if it still lives."""
    environment = os.environ | ({"RELEVO_FAULT": f"{fault}:kill"} if fault else {})
    with Child(sys.executable, "-m", "tests.agents.serving", *arguments, env=environment) as child:
        yield child, await asyncio.to_thread(child.line)


@pytest.fixture
async def killed_desk(database_url: str, clock: Clock, valkey: Server, key_leaks: KeyLeaks) -> AsyncGenerator[Desk]:
    """A desk beside the processes that are killed; real time, because they know no other."""
    key_leaks.allow("rw:*")
    await emptied(database_url)
    settings = WorkSettings(database_url=database_url, redis_url=valkey.url)
    async with await WorkQueues.open(settings, now_ms=clock) as work_queues:
        yield await a_desk(work_queues, clock, events_to_queue=["published"])


async def count(work_queues: WorkQueues, table: Any) -> int:
    async with work_queues.database.connect() as connection:
        return (await connection.execute(select(func.count()).select_from(table))).scalar_one()


async def test_claims_come_back_although_the_leader_is_killed(
    killed_desk: Desk, database_url: str, valkey: Server
) -> None:
    desk, runs = killed_desk, Runs(killed_desk.work_queues, "test")
    await desk.queue(visibility_timeout_s=1)

    async def leader() -> str:
        return (await runs.read("visibility_timeout_enforcer", 1.0, "")).last_node or ""

    async with serving(database_url, valkey.url) as (one, first), serving(database_url, valkey.url) as (other, second):
        await one.until(lambda: _truth(leader()), "leader", timeout=80)
        killed = await leader()
        doomed, heir = (one, other) if killed == first else (other, one)
        doomed.kill()
        (message_id,) = await desk.publish()
        await desk.claim()

        async def came_back() -> bool:
            return (await desk.row(message_id))["reclaims"] == 1

        await heir.until(came_back, "claim that came back", timeout=80)
        assert await leader() == (second if killed == first else first)


async def test_events_survive_a_kill_between_stream_and_outbox(
    killed_desk: Desk, database_url: str, valkey: Server
) -> None:
    desk, work_queues = killed_desk, killed_desk.work_queues
    await desk.queue()
    ids = await desk.publish(30)
    await desk.settle("complete", await desk.claim(30))
    async with serving(database_url, valkey.url, fault="relay.sent") as (child, _):
        assert await asyncio.to_thread(child.ended, timeout=90) == -9, child.err
    assert await count(work_queues, outbox) == 3  # a packed row for each call
    (later,) = await desk.publish()
    await work_queues.messages.cancel(desk.caller, SCOPE, later)
    async with serving(database_url, valkey.url) as (child, _):
        await child.until(lambda: _is(count(work_queues, outbox), 0), "empty outbox", timeout=80)
    told = [str(event.causation_id) for event in await desk.claim(100, "_events")]
    assert sorted(told) == sorted([*ids, later])
    streamed: list[tuple[str, str | None]] = []
    name = f"work.acme.{SCOPE}.jobs"
    async with QueueEvents(name, redis_url=valkey.url, last_event_id="0") as events, asyncio.timeout(limit(20)):
        async for each in events:
            streamed.append((each.name, each.job_id))
            if each.name == "cancelled":  # of a message that was published after the kill: nothing comes behind it
                break
    steps = [(step, each) for step in ("published", "claimed", "completed") for each in ids]
    assert streamed == [*steps, ("published", later), ("cancelled", later)]


async def test_a_kill_in_the_middle_of_archiving_neither_loses_nor_doubles(
    killed_desk: Desk, database_url: str
) -> None:
    desk, work_queues = killed_desk, killed_desk.work_queues
    await desk.queue()
    desk.clock.turn(minutes=-120)
    ids = await desk.publish(5)
    await desk.settle("complete", await desk.claim(5))
    desk.clock.turn(minutes=120)
    async with serving(database_url, fault="archive.copied") as (child, _):
        assert await asyncio.to_thread(child.ended, timeout=90) == -9, child.err
    assert await count(work_queues, archive) == 0
    assert {(await desk.row(each))["state"] for each in ids} == {"completed"}
    assert (await MessageArchiver(work_queues).work()).items == 5
    assert await count(work_queues, archive) == 5


async def test_a_kill_in_the_middle_of_adding_up_a_day_neither_loses_nor_doubles(
    killed_desk: Desk, database_url: str
) -> None:
    desk, work_queues = killed_desk, killed_desk.work_queues
    queue_id = (await desk.queue()).id
    await desk.publish(5)
    await desk.settle("complete", await desk.claim(2))
    async with work_queues.database.begin() as connection:
        await connection.execute(update(tallies).values(day=tallies.c.day - 2))
    before = await tallied(work_queues, queue_id)
    async with serving(database_url, fault="fold.added") as (child, _):
        assert await asyncio.to_thread(child.ended, timeout=90) == -9, child.err
    assert await tallied(work_queues, queue_id) == before
    await MessageArchiver(work_queues).work()
    assert await tallied(work_queues, queue_id) == before
    async with work_queues.database.connect() as connection:
        slots = select(tallies.c.slot).where(tallies.c.queue_id == queue_id)
        assert set((await connection.execute(slots)).scalars()) == {FOLDED_SLOT}


async def test_a_replay_that_is_killed_goes_on_and_moves_each_once(killed_desk: Desk, database_url: str) -> None:
    desk, work_queues = killed_desk, killed_desk.work_queues
    await desk.queue()
    ids = await desk.die(5)
    replay = await work_queues.replays.start(desk.caller, SCOPE)
    await work_queues.replays.advance(desk.caller, replay.id, 2)
    async with serving(database_url, fault="replay.moved") as (child, _):
        assert await asyncio.to_thread(child.ended, timeout=90) == -9, child.err
    assert (await work_queues.replays.get(desk.caller, SCOPE, replay.id)).done == 2
    await ReplayRunner(work_queues).work()
    ended = await work_queues.replays.get(desk.caller, SCOPE, replay.id)
    assert (ended.state, ended.done) == ("done", 5)
    assert sorted(each.id for each in await desk.claim(10)) == sorted(ids)
    assert {(await desk.row(each))["replays"] for each in ids} == {1}


def test_every_point_is_walked() -> None:
    """Those of the search table in test_search_indexer.py."""
    here = {"relay.sent", "archive.copied", "fold.added", "replay.moved"}
    assert set(AGENT_POINTS) == {*here, "search.taken", "search.written"}


async def _truth(asked: Awaitable[object]) -> bool:
    return bool(await asked)


async def _is(asked: Awaitable[int], wanted: int) -> bool:
    return await asked == wanted

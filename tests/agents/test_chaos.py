"""For most of a minute agents are killed, Redis is killed, and workers vanish; in the end every message was completed once."""

import asyncio
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from relevo.agents.index_auditor import IndexAuditor
from relevo.contract.claims import Claimed
from relevo.engine.events.queue_events import QueueEvents
from relevo.work.store.tables import outbox
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.agents.test_kills import serving
from tests.clock import Clock
from tests.conftest import Launch
from tests.pace import limit
from tests.patience import until
from tests.servers.leaks import KeyLeaks
from tests.servers.server import EmbeddedValkey
from tests.support.desk import SCOPE, Desk, a_desk, emptied

SECONDS = 40.0
AHEAD = 200
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]


class Story:
    """Publishers, workers that come and go, and what they were told."""

    def __init__(self, desk: Desk, seed: int) -> None:
        self.desk = desk
        self.random = random.Random(seed)
        self.published: set[str] = set()
        self.news: set[str] = set()
        self.completed: Counter[str] = Counter()
        self.delivered: Counter[tuple[str, str]] = Counter()
        self.calm = False
        self._settled = asyncio.Condition()

    async def publisher(self) -> None:
        """Never far ahead of the workers: what was published last is worked on while things break."""
        while not self.calm:
            self.published |= set(await self.desk.publish(3, ttl_s=86_400))
            self.news |= set(await self.desk.publish(1, "news"))
            async with self._settled:
                await self._settled.wait_for(lambda: self.calm or len(self.published) - len(self.completed) < AHEAD)

    async def until_settled(self, most: int) -> None:
        """A moment to break something at: up to `most` more verdicts."""
        wanted = sum(self.completed.values()) + self.random.randint(1, most)
        async with self._settled, asyncio.timeout(limit(60)):
            await self._settled.wait_for(lambda: sum(self.completed.values()) >= wanted)

    async def be_calm(self) -> None:
        async with self._settled:
            self.calm = True
            self._settled.notify_all()

    async def worker(self, subscription: str | None = None) -> None:
        queue = "jobs" if subscription is None else "news"
        while True:
            claimed = await self.desk.claim(4, queue, subscription=subscription, wait_s=1)
            for each in claimed:
                await self.handle(each, subscription)

    async def handle(self, each: Claimed, subscription: str | None) -> None:
        fate = 1.0 if self.calm else self.random.random()
        if fate < 0.1:
            return  # vanishes with it
        if fate < 0.2:
            await self.desk.settle("fail", [each], reason="bad day")
            return
        (settled,) = await self.desk.settle("complete", [each])
        if settled.refusal is None and subscription is None:
            async with self._settled:
                self.completed[each.id] += 1
                self._settled.notify_all()
        elif settled.refusal is None and subscription is not None:
            self.delivered[each.id, subscription] += 1

    def is_done(self) -> bool:
        return set(self.completed) >= self.published and len(self.delivered) == 2 * len(self.news)


@pytest.mark.parametrize("seed", [1])
async def test_everything_is_completed_once_and_told_in_order(
    seed: int, database_url: str, launch: Launch, clock: Clock, key_leaks: KeyLeaks, tmp_path: Path
) -> None:
    key_leaks.allow("*")
    await emptied(database_url)
    server = launch(EmbeddedValkey, appendonly=True)
    settings = WorkSettings(database_url=database_url, redis_url=server.url)
    async with await WorkQueues.open(settings, now_ms=clock) as work_queues:
        desk = await a_desk(work_queues, clock, events_to_queue=["completed"])
        easy: Any = {"visibility_timeout_s": 2, "max_retries": 1000, "max_reclaims": 1000, "backoff_initial_ms": 50}
        await desk.queue(**easy)
        await desk.queue("news", consumer_mode="broadcast", **easy)
        for name in ("mail", "search"):
            await work_queues.subscriptions.create(desk.caller, SCOPE, "news", name)
        story = Story(desk, seed)
        workers = [asyncio.create_task(story.worker()) for _ in range(4)]
        workers += [asyncio.create_task(story.worker(name)) for name in ("mail", "search")]
        publishing = asyncio.create_task(story.publisher())
        loop = asyncio.get_running_loop()
        end, redis_dies = loop.time() + SECONDS, loop.time() + SECONDS / 2
        while loop.time() < end:
            async with serving(database_url, server.url) as (one, _), serving(database_url, server.url):
                await story.until_settled(200)
                one.kill()
                await story.until_settled(200)
                if loop.time() > redis_dies:
                    redis_dies = end
                    server.kill()
                    await story.until_settled(200)  # without Redis work goes on
                    server.restart()
        await story.be_calm()
        await publishing
        async with serving(database_url, server.url):
            await until(story.is_done, timeout=120)
            await until(lambda: _nothing_waits(work_queues), timeout=60)
        for each in workers:
            each.cancel()
        await asyncio.wait(workers)
        await _check(story, work_queues, server.url)


async def _nothing_waits(work_queues: WorkQueues) -> bool:
    async with work_queues.database.connect() as connection:
        return (await connection.execute(select(func.count()).select_from(outbox))).scalar_one() == 0


async def _check(story: Story, work_queues: WorkQueues, redis_url: str) -> None:
    desk = story.desk
    assert set(story.completed) == story.published
    assert set(story.completed.values()) == {1}
    assert set(story.delivered) == {(each, name) for each in story.news for name in ("mail", "search")}
    assert set(story.delivered.values()) == {1}
    for slug in ("jobs", "news", "_dead_letter"):
        queue = await work_queues.queues.lookup(desk.caller, SCOPE, slug)
        drift = await IndexAuditor(work_queues)._drift(queue)  # pyright: ignore[reportPrivateUsage]
        assert set(drift.values()) == {0}
    told: Counter[str | None] = Counter()
    while events := await desk.claim(500, "_events"):
        told.update(each.causation_id for each in events)
        await desk.settle("complete", events)
    assert all(told[each] == 1 for each in story.published)
    assert all(told[each] == 2 for each in story.news)
    seen: set[str] = set()
    names: dict[str, list[str]] = defaultdict(list)
    last = max(story.published)
    async with QueueEvents(f"work.acme.{SCOPE}.jobs", redis_url=redis_url, last_event_id="0") as stream:
        async with asyncio.timeout(limit(60)):
            async for event in stream:
                if event.fields["seq"] not in seen:
                    seen.add(event.fields["seq"])
                    names[str(event.job_id)].append(event.name)
                if names[last][-1:] == ["completed"] and all(each[-1] == "completed" for each in names.values()):
                    break
    assert all(each[0] == "published" for each in names.values())
    assert all(each.count("completed") == 1 for each in names.values())

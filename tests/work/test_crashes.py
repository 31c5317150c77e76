"""A process may die between any two steps: nothing is lost, doubled or left behind.

Every fault point is walked, in the order of `faults.POINTS`: the process kills itself there (SIGKILL), another takes over.
"""

import asyncio
import contextlib
import multiprocessing
import random
import signal
from collections import Counter

import msgspec
import pytest
from sqlalchemy import func, select

from relevo.agents.visibility_timeout_enforcer import VisibilityTimeoutEnforcer
from relevo.contract.messages import NewMessage
from relevo.work.faults import POINTS
from relevo.work.message.history import steps, trail_of
from relevo.work.store import tables
from relevo.work.store.counters import Depth
from relevo.work.store.tables import tallies
from relevo.work.work_queues import WorkSettings
from tests.clock import Clock
from tests.patience import until
from tests.servers.stores import STORES
from tests.support.desk import JOBS, SCOPE, Desk, new
from tests.support.killed_worker import Orders, live
from tests.work.conftest import Lane

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["tests.support.killed_worker", "relevo.work.store.sqlite.driver", "asyncpg", "asyncmy", "aiosqlite"]
)


class Casualty:
    """The process, and what it said."""

    def __init__(self, desk: Desk, lane: Lane, *, count: int, tasks: int, fault: str = "") -> None:
        redis_url = None if lane.redis is None else lane.redis.url
        settings = WorkSettings(database_url=lane.database_url, redis_url=redis_url, claim_path=lane.path, poll_s=0.1)
        self._orders = Orders(settings, desk.caller.tenant_id, count, tasks, fault)
        self.said: list[list[str]] = []

    async def run(self, *, kill_after: int | None = None) -> int | None:
        """Until it ends, or has said so many lines."""
        ours, theirs = FORKS.Pipe(duplex=False)
        process = FORKS.Process(target=live, args=(self._orders, theirs))
        process.start()
        theirs.close()
        with contextlib.suppress(EOFError):
            while True:
                self.said.append((await asyncio.to_thread(ours.recv_bytes)).decode().split())
                if kill_after is not None and len(self.said) == kill_after:
                    process.kill()
        await asyncio.to_thread(process.join)
        ours.close()
        return process.exitcode

    def told(self, word: str) -> list[str]:
        return [words[-1] for words in self.said if words[0] == word]


async def clear_up(desk: Desk, clock: Clock, count: int) -> None:
    """What the living do: publishers repeat what they had no answer to, claims run out, workers work on."""
    clock.turn(3600)
    await desk.ids(*(new_keyed(n) for n in range(count)))
    enforcer = VisibilityTimeoutEnforcer(desk.work_queues)

    async def nothing_is_held() -> bool:
        while (await enforcer.work()).more:
            pass
        await desk.drain(7)
        return "claimed" not in await desk.states()

    await until(
        nothing_is_held
    )  # the server may still be ending the dead one's transaction, and agents pass over its rows


def new_keyed(n: int) -> NewMessage:
    """The message as the casualty publishes it."""
    return msgspec.structs.replace(new(idempotency_key=f"k{n}"), body=msgspec.Raw(b'"k%d"' % n))


async def assert_all_done_once(desk: Desk, casualty: Casualty, count: int) -> None:
    queue = await desk.work_queues.queues.lookup(desk.caller, SCOPE, JOBS)
    async with desk.work_queues.database.connect() as connection:
        rows = (
            (await connection.execute(select(tables.live).where(tables.live.c.queue_id == queue.id))).mappings().all()
        )
        done = select(func.sum(tallies.c.completed), func.sum(tallies.c.published)).where(
            tallies.c.queue_id == queue.id
        )
        completed, published = (await connection.execute(done)).one()
    assert sorted(row["idempotency_key"] for row in rows) == sorted(f"k{n}" for n in range(count))
    assert Counter(row["state"] for row in rows) == {"completed": count}
    for row in rows:
        events = [step.event for step in steps(trail_of(row))]
        assert events.count("published") == events.count("completed") == 1, events
    assert set(casualty.told("published")) <= {row["id"] for row in rows}
    assert len(casualty.told("completed")) == len(set(casualty.told("completed")))
    assert (int(completed), int(published)) == (count, count)
    assert await desk.depth() == Depth()


@pytest.mark.parametrize("lane", [f"{store}-index" for store in STORES], indirect=True)
@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_at_this_point_loses_doubles_and_leaves_nothing(
    desk: Desk, lane: Lane, clock: Clock, point: str
) -> None:
    await desk.queue()
    casualty = Casualty(desk, lane, count=12, tasks=1, fault=f"{point}:kill")
    assert await casualty.run() == -signal.SIGKILL
    await clear_up(desk, clock, 12)
    await assert_all_done_once(desk, casualty, 12)


@pytest.mark.parametrize("lane", [f"{store}-alone" for store in STORES], indirect=True)
@pytest.mark.parametrize("point", [each for each in POINTS if each.endswith((".written", ".committed"))])
async def test_a_crash_without_redis_loses_doubles_and_leaves_nothing(
    desk: Desk, lane: Lane, clock: Clock, point: str
) -> None:
    await desk.queue()
    casualty = Casualty(desk, lane, count=12, tasks=1, fault=f"{point}:kill:3")
    assert await casualty.run() == -signal.SIGKILL
    await clear_up(desk, clock, 12)
    await assert_all_done_once(desk, casualty, 12)


async def test_a_process_killed_under_load_loses_and_doubles_nothing(desk: Desk, lane: Lane, clock: Clock) -> None:
    await desk.queue()
    casualty = Casualty(desk, lane, count=300, tasks=8)
    moments = random.Random(7)
    for _ in range(3):
        assert await casualty.run(kill_after=len(casualty.said) + moments.randrange(60, 250)) == -signal.SIGKILL
    await clear_up(desk, clock, 300)
    await assert_all_done_once(desk, casualty, 300)

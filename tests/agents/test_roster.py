"""Who runs the agents, when, and what is known of it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from relevo.agents.agent import Batch
from relevo.agents.agent_runner import Shift
from relevo.agents.maintenance import Roster, all_agents
from relevo.agents.runs import Runs
from relevo.agents.stream_scheduler import agents_queue
from relevo.engine.events.queue_events import QueueEvents
from relevo.errors import NotFound
from relevo.work.work_queues import Office, OfficeSettings
from tests.agents.conftest import Desk, a_desk, emptied
from tests.clock import Clock
from tests.conftest import Launch
from tests.pace import limit
from tests.patience import turn, until
from tests.servers.leaks import KeyLeaks
from tests.servers.server import EmbeddedValkey, Server


class Counting:
    """An agent that counts its batches."""

    def __init__(self, name: str = "counting", *, every_s: float = 1.0, batches: int = 1) -> None:
        self.name = name
        self.every_s = every_s
        self.about = "counts"
        self.done = 0
        self.at_once = 0
        self.most_at_once = 0
        self._batches = batches

    async def work(self) -> Batch:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await turn()
        self.at_once -= 1
        self.done += 1
        return Batch(1, more=self.done % self._batches != 0)


class Failing(Counting):
    async def work(self) -> Batch:
        raise ValueError("no luck")


@pytest.fixture
async def lone(tmp_path: Path, clock: Clock) -> AsyncGenerator[Office]:
    """An office on SQLite, without Redis."""
    url = f"sqlite:///{tmp_path}/work.db"
    await emptied(url)
    async with await Office.open(OfficeSettings(database_url=url), now_ms=clock) as office:
        yield office


OfficeWith = Callable[[str], Awaitable[Office]]


@pytest.fixture
async def office_with(tmp_path: Path, clock: Clock, key_leaks: KeyLeaks) -> AsyncGenerator[OfficeWith]:
    """`await office_with(redis_url)`: one more process's office on the same SQLite."""
    key_leaks.allow("rw:*")
    url = f"sqlite:///{tmp_path}/work.db"
    await emptied(url)
    opened: list[Office] = []

    async def make(redis_url: str) -> Office:
        opened.append(await Office.open(OfficeSettings(database_url=url, redis_url=redis_url), now_ms=clock))
        return opened[-1]

    yield make
    for office in opened:
        await office.close()


async def test_run_now_tells_how_it_went(office: Office) -> None:
    agent = Counting(batches=3)
    roster = Roster(office, agents=[agent], node="here")
    run = await roster.run_now("counting")
    assert (run.last_items, run.last_error, run.last_node, run.runs) == (3, None, "here", 1)
    assert run.last_started_at is not None
    assert run.last_finished_at is not None
    assert run.last_duration_ms == run.last_finished_at - run.last_started_at
    assert run.next_run_at is not None
    assert run.running is False


async def test_a_failure_is_noted_and_the_next_run_clears_it(office: Office) -> None:
    run = await Roster(office, agents=[Failing()]).run_now("counting")
    assert (run.last_error, run.failures) == ("ValueError: no luck", 1)
    run = await Roster(office, agents=[Counting()]).run_now("counting")
    assert (run.last_error, run.failures, run.runs) == (None, 1, 2)


async def test_all_agents_of_the_spec_are_listed(office: Office) -> None:
    listed = {run.agent: run.every_s for run in (await Roster(office).list()).items}
    wanted = {
        "visibility_timeout_enforcer": 1.0,
        "expiry_enforcer": 60.0,
        "dead_letter_monitor": 60.0,
        "priority_aging_worker": 300.0,
        "message_archiver": 300.0,
        "outbox_relay": 1.0,
        "index_auditor": 60.0,
        "replay_runner": 1.0,
    }
    assert wanted.items() <= listed.items()


async def test_every_agent_finds_nothing_to_do_in_an_empty_installation(office: Office) -> None:
    for agent in all_agents(office):
        assert tuple(await agent.work()) == (0, False)


async def test_an_unknown_agent_is_not_found(lone: Office) -> None:
    with pytest.raises(NotFound):
        await Roster(lone).run_now("nobody")


async def test_a_lease_is_held_by_one_until_it_ends(office: Office, clock: Clock) -> None:
    one, other = Runs(office, "one"), Runs(office, "other")
    await one.enrol(["counting"])
    assert await one.begin("counting", lease_s=10)
    assert not await other.begin("counting", lease_s=10)
    clock.turn(s=11)
    assert await other.begin("counting", lease_s=10)
    assert not await one.renew("counting", lease_s=10)
    await one.end("counting", items=5, error=None)  # too late: the run under way is another's
    assert (await other.read("counting", 1.0, "")).running


async def test_many_processes_begin_a_beat_once(office: Office, clock: Clock) -> None:
    shifts = [Shift(Runs(office, f"node-{n}")) for n in range(5)]
    await Runs(office, "first").enrol(["counting"])
    agent = Counting()
    for beat in range(1, 4):
        clock.turn(s=2)
        since = clock() - 1000
        await asyncio.gather(*(shift.run(agent, not_since=since) for shift in shifts))
        assert agent.done == beat


async def test_without_redis_the_watch_gives_the_beat(lone: Office) -> None:
    fast, slow = Counting("fast", every_s=0.2), Counting("slow", every_s=3600)
    async with Roster(lone, agents=[fast, slow]) as roster:
        await roster.ran.wait_for(lambda _: fast.done >= 3 and slow.done == 1, timeout=limit(20))
    assert slow.done == 1


async def test_a_long_run_holds_nobody_up(lone: Office) -> None:
    hangs = asyncio.Event()

    class Hanging(Counting):
        async def work(self) -> Batch:
            await hangs.wait()
            return Batch(0)

    quick = Counting("quick", every_s=0.1)
    async with Roster(lone, agents=[Hanging("hanging"), quick]) as roster:
        await roster.ran.wait_for(lambda _: quick.done >= 2, timeout=limit(20))
        hangs.set()


async def test_the_engine_gives_the_beat_and_each_slot_to_one_process(office_with: OfficeWith, valkey: Server) -> None:
    offices = [await office_with(valkey.url) for _ in range(2)]
    agents = [Counting(every_s=0.5), Counting(every_s=0.5)]
    rosters = [Roster(each, agents=[agent]) for each, agent in zip(offices, agents, strict=True)]
    name = agents_queue(offices[0].installation)
    ran: list[str | None] = []
    async with QueueEvents(name, redis_url=valkey.url) as events, rosters[0], rosters[1], asyncio.timeout(limit(30)):
        async for event in events:
            ran += [event.job_id] if event.name == "completed" else []
            if len(ran) == 5:
                break
    assert len(set(ran)) == 5
    assert sum(agent.done for agent in agents) >= 4


async def test_an_emptied_redis_stops_no_agent(office_with: OfficeWith, valkey: Server) -> None:
    office = await office_with(valkey.url)
    agent = Counting(every_s=0.5)
    async with Roster(office, agents=[agent]) as roster:
        beat = roster.beat
        assert beat is not None
        await until(lambda: beat.worker.settled.count >= 1)
        client = valkey.client()
        await client.flushall()
        await client.aclose()
        seen, done = beat.worker.settled.count, agent.done
        await until(lambda: agent.done > done + 1 and beat.worker.settled.count > seen, timeout=40)


@pytest.mark.parametrize("how", ["stopped", "silent"])
async def test_agents_go_on_while_redis_is(
    how: str, office_with: OfficeWith, clock: Clock, launch: Launch, key_leaks: KeyLeaks
) -> None:
    server = launch(EmbeddedValkey)
    office = await office_with(server.url)
    desk = await a_desk(office, clock)
    await desk.queue(visibility_timeout_s=1)
    async with Roster(office) as roster:
        beat = roster.beat
        assert beat is not None
        await until(lambda: beat.works)
        server.stop() if how == "stopped" else server.pause()
        (message_id,) = await desk.publish()
        (claimed,) = await desk.claim()
        assert claimed.id == message_id

        async def came_back() -> bool:
            return (await desk.row(message_id))["reclaims"] == 1

        await until(came_back, timeout=30)
        server.start() if how == "stopped" else server.resume()
        await until(lambda: beat.works, timeout=30)
    key_leaks.allow("*")


async def test_agents_start_without_a_redis_that_was_promised(office_with: OfficeWith, clock: Clock) -> None:
    office = await office_with("redis://127.0.0.1:1")
    agent = Counting(every_s=0.2)
    async with Roster(office, agents=[agent]) as roster:
        await roster.ran.wait_for(lambda _: agent.done >= 2, timeout=limit(20))


async def test_the_relay_works_continuously(lone: Office, clock: Clock) -> None:
    desk: Desk = await a_desk(lone, clock, events_to_queue=["published"])
    await desk.queue()
    async with Roster(lone) as roster:
        (relay,) = roster.relays
        relayed = asyncio.ensure_future(relay.worked.wait_for(lambda items: items > 0, timeout=limit(20)))
        await desk.publish()
        await relayed
        (event,) = await desk.claim(10, "_events", wait_s=10)
        assert event.message_type == "message.published"


async def test_of_two_relays_one_works_until_it_ends(office: Office) -> None:
    rosters = [Roster(office, node=f"node-{n}") for n in range(2)]
    first, second = (roster.relays[0] for roster in rosters)
    await rosters[0]._runs.enrol(["outbox_relay"])  # pyright: ignore[reportPrivateUsage]
    await first.tick()
    await second.tick()
    assert (first.leads, second.leads) == (True, False)
    await first.finish()
    await second.tick()
    assert second.leads

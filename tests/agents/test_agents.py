"""Who runs the agents, when, and what is known of it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from relevo.agents.agent import Batch
from relevo.agents.agent_runner import AgentRunner
from relevo.agents.agents import Agents, all_agents
from relevo.agents.runs import Runs
from relevo.errors import NotFound
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.conftest import Launch
from tests.pace import limit
from tests.patience import turn, until
from tests.servers.leaks import KeyLeaks
from tests.servers.server import EmbeddedValkey, Server
from tests.support.desk import Desk, a_desk, emptied


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
async def lone(tmp_path: Path, clock: Clock) -> AsyncGenerator[WorkQueues]:
    """Work queues on SQLite, without Redis."""
    url = f"sqlite:///{tmp_path}/work.db"
    await emptied(url)
    async with await WorkQueues.open(WorkSettings(database_url=url), now_ms=clock) as work_queues:
        yield work_queues


class Stopped(Clock):
    """A time that passes only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.at = super().__call__()

    def __call__(self) -> int:
        return self.at + self.ahead_ms


@pytest.fixture
def stopped() -> Stopped:
    return Stopped()


OfficeWith = Callable[[str], Awaitable[WorkQueues]]


@pytest.fixture
async def office_with(tmp_path: Path, clock: Clock, key_leaks: KeyLeaks) -> AsyncGenerator[OfficeWith]:
    """`await office_with(redis_url)`: one more process's work_queues on the same SQLite."""
    key_leaks.allow("rw:*")
    url = f"sqlite:///{tmp_path}/work.db"
    await emptied(url)
    opened: list[WorkQueues] = []

    async def make(redis_url: str) -> WorkQueues:
        opened.append(await WorkQueues.open(WorkSettings(database_url=url, redis_url=redis_url), now_ms=clock))
        return opened[-1]

    yield make
    for work_queues in opened:
        await work_queues.close()


async def test_run_now_tells_how_it_went(work_queues: WorkQueues) -> None:
    agent = Counting(batches=3)
    running_agents = Agents(work_queues, agents=[agent], node="here")
    run = await running_agents.run_now("counting")
    assert (run.last_items, run.last_error, run.last_node, run.runs) == (3, None, "here", 1)
    assert run.last_started_at is not None
    assert run.last_finished_at is not None
    assert run.last_duration_s == (run.last_finished_at - run.last_started_at) / 1000
    assert run.next_run_at is not None
    assert run.running is False


async def test_a_failure_is_noted_and_the_next_run_clears_it(work_queues: WorkQueues) -> None:
    run = await Agents(work_queues, agents=[Failing()]).run_now("counting")
    assert (run.last_error, run.failures) == ("ValueError: no luck", 1)
    run = await Agents(work_queues, agents=[Counting()]).run_now("counting")
    assert (run.last_error, run.failures, run.runs) == (None, 1, 2)


async def test_all_agents_of_the_spec_are_listed(work_queues: WorkQueues) -> None:
    listed = {run.agent: run.every_s for run in (await Agents(work_queues).list()).items}
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


async def test_every_agent_finds_nothing_to_do_in_an_empty_installation(work_queues: WorkQueues) -> None:
    for agent in all_agents(work_queues):
        assert tuple(await agent.work()) == (0, False)


async def test_an_unknown_agent_is_not_found(lone: WorkQueues) -> None:
    with pytest.raises(NotFound):
        await Agents(lone).run_now("nobody")


async def test_a_lease_is_held_by_one_until_it_ends(work_queues: WorkQueues, clock: Clock) -> None:
    one, other = Runs(work_queues, "one"), Runs(work_queues, "other")
    await one.enrol(["counting"])
    assert await one.begin("counting", lease_s=10)
    assert not await other.begin("counting", lease_s=10)
    clock.turn(s=11)
    assert await other.begin("counting", lease_s=10)
    assert not await one.renew("counting", lease_s=10)
    await one.end("counting", items=5, error=None)  # too late: the run under way is another's
    assert (await other.read("counting", 1.0, "")).running


async def test_many_processes_begin_a_beat_once(work_queues: WorkQueues, clock: Clock) -> None:
    shifts = [AgentRunner(Runs(work_queues, f"node-{n}")) for n in range(5)]
    await Runs(work_queues, "first").enrol(["counting"])
    agent = Counting()
    for beat in range(1, 4):
        clock.turn(s=2)
        since = clock() - 1000
        await asyncio.gather(*(shift.run(agent, not_since=since) for shift in shifts))
        assert agent.done == beat


async def test_each_agent_runs_when_it_is_due(lone: WorkQueues) -> None:
    fast, slow = Counting("fast", every_s=0.2), Counting("slow", every_s=3600)
    async with Agents(lone, agents=[fast, slow]) as running_agents:
        await running_agents.ran.wait_for(lambda _: fast.done >= 3 and slow.done == 1, timeout=limit(20))
    assert slow.done == 1


async def test_a_long_run_holds_nobody_up(lone: WorkQueues) -> None:
    hangs = asyncio.Event()

    class Hanging(Counting):
        async def work(self) -> Batch:
            await hangs.wait()
            return Batch(0)

    quick = Counting("quick", every_s=0.1)
    async with Agents(lone, agents=[Hanging("hanging"), quick]) as running_agents:
        await running_agents.ran.wait_for(lambda _: quick.done >= 2, timeout=limit(20))
        hangs.set()


async def test_who_ran_an_agent_last_runs_it_again_and_another_takes_over(tmp_path: Path, stopped: Stopped) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    await emptied(url)
    async with await WorkQueues.open(WorkSettings(database_url=url), now_ms=stopped) as work_queues:
        agents = [Counting(every_s=60), Counting(every_s=60)]
        first, other = (
            Agents(work_queues, agents=[agent], node=agent_of) for agent, agent_of in zip(agents, "ab", strict=True)
        )
        await first._runs.enrol(["counting"])  # pyright: ignore[reportPrivateUsage]

        async def look(running_agents: Agents) -> list[int]:
            """How often each has run, after one look of this one."""
            await running_agents.scheduler.tick()
            await running_agents.scheduler.finish()
            return [agent.done for agent in agents]

        assert await look(first) == [1, 0]
        stopped.turn(s=60)
        assert await look(other) == [1, 0]
        assert await look(first) == [2, 0]
        stopped.turn(s=60.249)
        assert await look(other) == [2, 0]
        stopped.turn(s=0.001)
        assert await look(other) == [2, 1]
        assert await look(first) == [2, 1]
        stopped.turn(s=60)
        assert await look(first) == [2, 1]
        assert await look(other) == [2, 2]


async def test_several_processes_never_run_an_agent_at_once(office_with: OfficeWith, valkey: Server) -> None:
    offices = [await office_with(valkey.url) for _ in range(3)]
    agent = Counting(every_s=0.1)
    several = [Agents(each, agents=[agent]) for each in offices]
    async with several[0], several[1], several[2]:
        await until(lambda: agent.done >= 6)
    run = await several[0].get("counting")
    assert (agent.most_at_once, run.runs) == (1, agent.done)


@pytest.mark.parametrize("how", ["stopped", "silent"])
async def test_agents_go_on_while_redis_is(
    how: str, office_with: OfficeWith, clock: Clock, launch: Launch, key_leaks: KeyLeaks
) -> None:
    server = launch(EmbeddedValkey)
    work_queues = await office_with(server.url)
    desk = await a_desk(work_queues, clock)
    await desk.queue(visibility_timeout_s=1)
    async with Agents(work_queues) as running_agents:
        await until(lambda: running_agents.ran.count > 0)
        server.stop() if how == "stopped" else server.pause()
        (message_id,) = await desk.publish()
        (claimed,) = await desk.claim()
        assert claimed.id == message_id

        async def came_back() -> bool:
            return (await desk.row(message_id))["reclaims"] == 1

        await until(came_back, timeout=30)
        server.start() if how == "stopped" else server.resume()
    key_leaks.allow("*")


async def test_agents_start_without_a_redis_that_was_promised(office_with: OfficeWith, clock: Clock) -> None:
    work_queues = await office_with("redis://127.0.0.1:1")
    agent = Counting(every_s=0.2)
    async with Agents(work_queues, agents=[agent]) as running_agents:
        await running_agents.ran.wait_for(lambda _: agent.done >= 2, timeout=limit(20))


async def test_the_relay_works_continuously(lone: WorkQueues, clock: Clock) -> None:
    desk: Desk = await a_desk(lone, clock, events_to_queue=["published"])
    await desk.queue()
    async with Agents(lone) as running_agents:
        (relay,) = running_agents.relays
        relayed = asyncio.ensure_future(relay.worked.wait_for(lambda items: items > 0, timeout=limit(20)))
        await desk.publish()
        await relayed
        (event,) = await desk.claim(10, "_events", wait_s=10)
        assert event.message_type == "message.published"


async def test_of_two_relays_one_works_until_it_ends(work_queues: WorkQueues) -> None:
    several = [Agents(work_queues, node=f"node-{n}") for n in range(2)]
    first, second = (running_agents.relays[0] for running_agents in several)
    await several[0]._runs.enrol(["outbox_relay"])  # pyright: ignore[reportPrivateUsage]
    await first.tick()
    await second.tick()
    assert (first.leads, second.leads) == (True, False)
    await first.finish()
    await second.tick()
    assert second.leads

"""Schedules that code declares: made by workers, changed with the code, ended when they left it; hand-made ones are let be."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from relevo import MissedFiresPolicy, Queue, RepeatPattern, TaskContext, Tasks
from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.engine.schedules.declared_schedules import KEEP_DECLARED, Declaration, DeclaredSchedules
from relevo.engine.schedules.schedules import SCRIPTS
from relevo.errors import BadArgument, BadCron, BadInterval, BadTask, UnknownZone
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.pace import limit
from tests.servers.server import Client, Server
from tests.support.watched import until_done

HOUR = timedelta(hours=1)

Keeper = Callable[..., DeclaredSchedules]
"""`keeper(declaration, ...)`: the duty of one worker whose code declares these; `tick()` it by hand."""


@pytest.fixture
async def keeper(server: Server, keys: QueueKeys) -> AsyncGenerator[Keeper]:
    links: list[Link] = []

    def make(*declared: Declaration | None) -> DeclaredSchedules:
        scripts = (KEEP_DECLARED, *SCRIPTS)
        link = Link(Address.parse(server.url), keys.tag, purpose="declare", scripts=scripts)
        links.append(link)
        found = [each for each in declared if each is not None]
        return DeclaredSchedules(link, keys, lambda: found)

    yield make
    for link in links:
        await link.close()


async def keys_of(queue: Queue) -> list[str]:
    return sorted(meta.key for meta in await queue.get_repeatable_jobs())


async def cron_of(queue: Queue) -> list[str | None]:
    return [meta.pattern.expression for meta in await queue.get_repeatable_jobs()]


async def test_a_worker_makes_the_schedules_of_its_tasks_and_runs_them(queue: Queue, worker_of: WorkerOf) -> None:
    @asynccontextmanager
    async def resources() -> AsyncGenerator[str]:
        yield "shared"

    tasks = Tasks(resources)
    ran: list[str] = []

    @tasks.task(every=timedelta(milliseconds=30))
    async def beat(context: TaskContext[str], label: str = "by itself") -> None:
        ran.append(f"{context.resources} {label}")

    @tasks.task("daily.report", cron="0 9 * * *", tz="Europe/Madrid", missed_fires=MissedFiresPolicy.fire_once())
    async def report() -> None: ...

    async with worker_of(tasks, scheduler_tick_ms=20) as worker, worker_of(tasks, scheduler_tick_ms=20) as second:
        await until_done(worker, second, done=2)
        assert await keys_of(queue) == ["task:beat", "task:daily.report"]
        metas = {meta.key: meta for meta in await queue.get_repeatable_jobs()}
    assert ran[:2] == ["shared by itself"] * 2
    daily = metas["task:daily.report"]
    assert (daily.job_name, daily.pattern) == ("daily.report", RepeatPattern.cron("0 9 * * *", tz="Europe/Madrid"))
    assert daily.missed_fires == MissedFiresPolicy.fire_once()


async def test_many_workers_of_one_code_make_one_schedule_and_keep_its_beat(queue: Queue, keeper: Keeper) -> None:
    declared = Declaration.of("report", every=HOUR)
    await keeper(declared).tick()
    (first,) = await queue.get_repeatable_jobs()
    await asyncio.gather(*(keeper(declared).tick() for _ in range(4)))
    assert await queue.get_repeatable_jobs() == [first]


async def test_another_time_in_the_code_changes_the_schedule(queue: Queue, keeper: Keeper) -> None:
    await keeper(Declaration.of("report", cron="0 9 * * *")).tick()
    await keeper(Declaration.of("report", cron="0 10 * * *")).tick()
    assert await cron_of(queue) == ["0 10 * * *"]


async def test_a_schedule_that_left_the_code_is_ended_and_a_hand_made_one_is_not(
    queue: Queue, keeper: Keeper, raw: Client, keys: QueueKeys
) -> None:
    await queue.upsert_repeatable_job("hand", {}, repeat=RepeatPattern.every(60_000), key="task:hand")
    await keeper(Declaration.of("stays", every=HOUR), Declaration.of("goes", every=HOUR)).tick()
    ended: list[str] = []
    assert await keys_of(queue) == ["task:goes", "task:hand", "task:stays"]
    await raw.zadd(keys.repeat_declared, {"task:goes": 0})  # as a minute after the last worker that declared it
    soon = keeper(Declaration.of("stays", every=HOUR))
    soon.kept.listen(lambda kept: ended.extend(kept.ended))
    await soon.tick()
    assert (ended, await keys_of(queue)) == (["task:goes"], ["task:hand", "task:stays"])
    assert await raw.exists(keys.repeat_spec("task:goes")) == 0


async def test_the_last_declaration_that_left_the_code_is_ended_too(
    queue: Queue, keeper: Keeper, raw: Client, keys: QueueKeys
) -> None:
    await keeper(Declaration.of("goes", every=HOUR)).tick()
    await raw.zadd(keys.repeat_declared, {"task:goes": 0})
    await keeper().tick()
    assert await keys_of(queue) == []


async def test_old_and_new_code_side_by_side_do_not_take_turns(queue: Queue, keeper: Keeper) -> None:
    """A rolling deploy: the new code has another time, a schedule more and one less."""
    old = keeper(Declaration.of("report", cron="0 9 * * *"), Declaration.of("dropped", every=HOUR))
    new = keeper(Declaration.of("report", cron="0 10 * * *"), Declaration.of("added", every=HOUR))
    await old.tick()
    await new.tick()
    before = await queue.get_repeatable_jobs()
    made: list[str] = []
    for each in (old, new):
        each.kept.listen(lambda kept: made.extend((*kept.made, *kept.ended)))
    for _ in range(3):
        await old.tick()
        await new.tick()
    assert (made, await queue.get_repeatable_jobs()) == ([], before)
    assert await keys_of(queue) == ["task:added", "task:dropped", "task:report"]
    assert "0 10 * * *" in await cron_of(queue)


async def test_what_was_removed_comes_back_and_what_was_paused_stays_paused(queue: Queue, keeper: Keeper) -> None:
    declared = keeper(Declaration.of("report", every=HOUR), Declaration.of("quiet", every=HOUR))
    await declared.tick()
    await queue.remove_repeatable_by_key("task:report")
    await queue.repeatables.pause_repeatable("task:quiet")
    await declared.tick()
    await keeper(Declaration.of("quiet", every=HOUR)).tick()  # a worker that starts
    assert await keys_of(queue) == ["task:report"]
    assert [meta.key for meta in await queue.repeatables.list(paused=True)] == ["task:quiet"]


async def test_a_hand_that_takes_a_declared_schedule_over_keeps_it(
    queue: Queue, keeper: Keeper, raw: Client, keys: QueueKeys
) -> None:
    await keeper(Declaration.of("report", every=HOUR)).tick()
    await queue.upsert_repeatable_job("report", {}, repeat=RepeatPattern.every(60_000), key="task:report")
    assert await raw.zscore(keys.repeat_declared, "task:report") is None
    await keeper().tick()
    assert await keys_of(queue) == ["task:report"]


async def test_a_schedule_that_is_over_stops_nobody(
    queue: Queue, keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    declared = keeper(Declaration.of("over", cron="0 0 9 1 1 * 2020"), Declaration.of("report", every=HOUR))
    await declared.tick()
    await declared.tick()
    assert await keys_of(queue) == ["task:report"]
    assert caplog.text.count("would never fire") == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"cron": "61 * * * *"}, BadCron),
        ({"cron": "0 9 * * *", "tz": "Mars/Olympus"}, UnknownZone),
        ({"every": timedelta(0)}, BadInterval),
        ({"cron": "0 9 * * *", "every": HOUR}, BadArgument),
        ({"tz": "UTC"}, BadArgument),
        ({"every": HOUR, "tz": "UTC"}, BadArgument),
        ({"missed_fires": MissedFiresPolicy.skip()}, BadArgument),
    ],
    ids=str,
)
def test_a_schedule_that_cannot_be_is_refused_where_it_is_declared(arguments: Any, error: type[Exception]) -> None:
    tasks: Tasks[None] = Tasks()

    async def report() -> None: ...

    with pytest.raises(error):
        tasks.task(**arguments)(report)
    assert (list(tasks), tasks.declared_schedules()) == ([], [])


def test_a_task_that_needs_arguments_has_no_schedule() -> None:
    tasks: Tasks[None] = Tasks()

    async def report(to: str) -> None: ...

    with pytest.raises(BadTask, match="a schedule calls it without arguments"):
        tasks.task(every=HOUR)(report)


# --- registries that include others ------------------------------------------------------------------------------------


def with_resources(name: str, life: list[str]) -> Tasks[str]:
    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[str]:
        life.append(f"{name} entered")
        yield name
        life.append(f"{name} left")

    return Tasks(lifespan)


async def test_included_tasks_run_with_their_own_resources(queue: Queue, worker_of: WorkerOf) -> None:
    life: list[str] = []
    app, mail, deep = (with_resources(name, life) for name in ("app", "mail", "deep"))
    mail.include(deep)
    app.include(mail)

    @app.task()
    async def here(context: TaskContext[str]) -> str:
        return context.resources

    @mail.task(attempts=1, every=HOUR)  # defined after it was included
    async def send(context: TaskContext[str], fail: bool = False) -> str:
        if fail:
            raise ValueError("no")
        return context.resources

    @deep.task()
    def down(context: TaskContext[str]) -> str:
        return context.resources

    async with worker_of(app, store_results=True) as worker:
        jobs = [await task.enqueue(queue) for task in (here, send, down)]
        assert [await job.wait_for_result(timeout=limit(20)) for job in jobs] == ["app", "mail", "deep"]
        await queue.add("send", {"fail": True})
        total = await worker.until(dead=1)
    assert (total.retried, sorted(task.name for task in app)) == (0, ["down", "here", "send"])
    assert life[:3] == ["deep entered", "mail entered", "app entered"]
    assert sorted(life[3:]) == ["app left", "deep left", "mail left"]
    assert [each.key for each in app.declared_schedules()] == ["task:send"]


def test_two_tasks_of_one_name_and_circles_are_refused() -> None:
    app, mail, other = Tasks[None](), Tasks[None](), Tasks[None]()

    async def send() -> None: ...

    app.include(mail)
    mail.task()(send)
    with pytest.raises(BadTask, match="there is one of that name"):
        app.task()(send)
    other.task()(send)
    other.task("fine")(send)
    with pytest.raises(BadTask, match="there is one of that name"):
        app.include(other)
    assert [task.name for task in app] == ["send"]
    for includer, included in ((mail, app), (app, app)):
        with pytest.raises(BadArgument, match="it includes this registry, or is it"):
            includer.include(included)

"""Requests with an idempotency key, on every database: one of many is done, and its key is committed with its work."""

import asyncio

import pytest

from relevo.errors import IdempotencyKeyReused, SlugTaken
from relevo.work.store.kept_answers import Answer
from tests.people.conftest import Desk
from tests.servers.stores import STORES
from tests.support.desk import SCOPE


@pytest.mark.parametrize("store", STORES)
async def test_of_many_at_once_one_acts_and_all_have_its_answer(desk: Desk) -> None:
    work_queues, caller = desk.work_queues, desk.caller
    acted: list[int] = []

    async def ask(number: int) -> tuple[Answer, bool]:
        async def act() -> Answer:
            made = await work_queues.schemas.add(caller, SCOPE, "invoice", "{}")
            acted.append(number)
            return Answer(201, str(made.version))

        return await work_queues.kept_answers.once(caller, "k", "f", act)

    answers = await asyncio.gather(*(ask(number) for number in range(6)))
    assert {answer for answer, _ in answers} == {Answer(201, "1")}
    assert sorted(replayed for _, replayed in answers) == [False, *[True] * 5]
    assert len(acted) == 1
    assert (await work_queues.schemas.get(caller, SCOPE, "invoice")).version == 1


@pytest.mark.parametrize("store", STORES)
async def test_who_comes_between_the_work_and_its_answer_waits_for_it(desk: Desk) -> None:
    work_queues, caller = desk.work_queues, desk.caller
    committed, answered = asyncio.Event(), asyncio.Event()

    async def act() -> Answer:
        made = await work_queues.schemas.add(caller, SCOPE, "invoice", "{}")
        committed.set()
        await answered.wait()
        return Answer(201, str(made.version))

    async def never() -> Answer:
        raise AssertionError("it was done")

    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(work_queues.kept_answers.once(caller, "k", "f", act))
        await committed.wait()
        second = tasks.create_task(work_queues.kept_answers.once(caller, "k", "f", never))
        asyncio.get_running_loop().call_later(0.1, answered.set)
    assert (first.result(), second.result()) == ((Answer(201, "1"), False), (Answer(201, "1"), True))


@pytest.mark.parametrize("store", STORES)
async def test_work_that_is_rolled_back_leaves_no_key(desk: Desk) -> None:
    work_queues, caller = desk.work_queues, desk.caller

    async def refused() -> Answer:
        await work_queues.scopes.create(caller, SCOPE)
        raise AssertionError("there is one")

    async def other() -> Answer:
        await work_queues.scopes.create(caller, "fresh")
        return Answer(201, "made")

    with pytest.raises(SlugTaken):
        await work_queues.kept_answers.once(caller, "k", "f", refused)
    assert await work_queues.kept_answers.once(caller, "k", "g", other) == (Answer(201, "made"), False)
    with pytest.raises(IdempotencyKeyReused):
        await work_queues.kept_answers.once(caller, "k", "f", refused)


async def test_what_writes_nothing_is_answered_again_too(desk: Desk) -> None:
    async def act() -> Answer:
        return Answer(200, "nothing")

    once = desk.work_queues.kept_answers.once
    assert await once(desk.caller, "k", "f", act) == (Answer(200, "nothing"), False)
    assert await once(desk.caller, "k", "f", act) == (Answer(200, "nothing"), True)
    desk.clock.turn(s=86_400)
    assert await desk.work_queues.kept_answers.forget_old() == 1
    assert await once(desk.caller, "k", "f", act) == (Answer(200, "nothing"), False)

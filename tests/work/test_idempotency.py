"""The same key twice: one message, however the two publishes meet."""

import asyncio

import msgspec

from relevo.contract.messages import NewMessage, Published, Refusal
from tests.support.desk import JOBS, SCOPE, Desk, new, number, tallied
from tests.work.conftest import OpenWorkQueues


def other(message: NewMessage) -> NewMessage:
    return msgspec.structs.replace(message, body=msgspec.Raw(b'"another"'))


async def test_the_same_key_and_body_is_the_first_message(desk: Desk) -> None:
    await desk.queue()
    (first,) = await desk.outcomes(new(1, idempotency_key="k"))
    (second,) = await desk.outcomes(new(1, idempotency_key="k"))
    assert isinstance(first, Published)
    assert second == Published(first.id, "pending", duplicate=True)
    assert await desk.states() == {"pending": 1}


async def test_a_duplicate_tells_the_state_of_the_first(desk: Desk) -> None:
    await desk.queue()
    await desk.outcomes(new(1, idempotency_key="k"))
    await desk.drain()
    (again,) = await desk.outcomes(new(1, idempotency_key="k"))
    assert isinstance(again, Published)
    assert (again.state, again.duplicate) == ("completed", True)


async def test_the_same_key_and_another_body_is_a_conflict(desk: Desk) -> None:
    await desk.queue()
    message = new(1, idempotency_key="k")
    await desk.outcomes(message)
    (outcome,) = await desk.outcomes(other(message))
    assert isinstance(outcome, Refusal)
    assert outcome.code == "IDEMPOTENCY_CONFLICT"
    assert await desk.states() == {"pending": 1}


async def test_a_key_twice_in_one_call_is_one_message(desk: Desk) -> None:
    await desk.queue()
    message = new(1, idempotency_key="k")
    first, second, third = await desk.outcomes(message, message, other(message))
    assert isinstance(first, Published)
    assert second == Published(first.id, "pending", duplicate=True)
    assert isinstance(third, Refusal)
    assert await desk.states() == {"pending": 1}


async def test_a_key_belongs_to_its_queue(desk: Desk) -> None:
    await desk.queue()
    await desk.queue("others")
    (first,) = await desk.ids(new(1, idempotency_key="k"))
    (second,) = await desk.ids(new(1, idempotency_key="k"), queue="others")
    assert first != second


async def test_one_key_from_many_sides_at_once_is_one_message(desk: Desk, open_work_queues: OpenWorkQueues) -> None:
    await desk.queue()
    desks = [desk, desk.at(await open_work_queues())]
    outcomes = await asyncio.gather(*(desks[n % 2].outcomes(new(1, idempotency_key="k")) for n in range(20)))
    published = [each for outcome in outcomes for each in outcome if isinstance(each, Published)]
    assert len(published) == 20
    assert len({each.id for each in published}) == 1
    assert [each.duplicate for each in published].count(False) == 1
    assert await desk.states() == {"pending": 1}


async def test_many_keys_crosswise_from_two_nodes_are_each_one_message(
    desk: Desk, open_work_queues: OpenWorkQueues
) -> None:
    """Two nodes remember the same keys in opposite order: they may wait for each other, never for ever."""
    await desk.queue()
    desks = [desk, desk.at(await open_work_queues())]
    keyed = [new(n, idempotency_key=f"k{n}") for n in range(40)]
    await asyncio.gather(*(desks[n % 2].outcomes(*(keyed if n % 2 else keyed[::-1])) for n in range(8)))
    assert await desk.states() == {"pending": 40}


async def test_a_key_that_is_known_costs_its_neighbours_in_the_transaction_nothing(desk: Desk) -> None:
    """Plain messages are written before anybody looks for their keys: a known one has the whole transaction run again."""
    queue = await desk.queue()
    (first,) = await desk.outcomes(new(0, idempotency_key="k0"))
    assert isinstance(first, Published)
    calls = ([new(n, idempotency_key=f"k{n}"), new(100 + n)] for n in range(20))
    outcomes = await asyncio.gather(*(desk.outcomes(*call) for call in calls))
    published = [each for outcome in outcomes for each in outcome if isinstance(each, Published)]
    assert [each.id for each in published if each.duplicate] == [first.id]
    assert len({each.id for each in published}) == 40
    assert await desk.states() == {"pending": 40}
    assert (await desk.depth()).pending == 40
    assert (await tallied(desk.work_queues, queue.id))["published"] == 40
    assert sorted(number(each) for each in await desk.drain()) == [*range(20), *range(100, 120)]


async def test_a_key_that_is_known_is_found_among_plain_messages_of_one_call(desk: Desk) -> None:
    await desk.queue()
    (first,) = await desk.outcomes(new(1, idempotency_key="k"))
    assert isinstance(first, Published)
    plain = desk.work_queues.messages.publish_plain
    bodies = [msgspec.Raw(b'{"n":0}'), msgspec.Raw(b'{"n":1}'), msgspec.Raw(b'{"n":2}')]
    outcomes = await plain(desk.caller, SCOPE, JOBS, bodies, [None, "k", "other"])
    assert [isinstance(each, Published) and each.duplicate for each in outcomes] == [False, True, False]
    assert await plain(desk.caller, SCOPE, JOBS, bodies[1:2], ["k"]) == [Published(first.id, "pending", duplicate=True)]
    (refused,) = await plain(desk.caller, SCOPE, JOBS, bodies[:1], ["k"])
    assert isinstance(refused, Refusal)
    desk.clock.turn(5)
    await plain(desk.caller, SCOPE, JOBS, bodies[:1], ["asks for the rules anew"])
    ids = await plain(desk.caller, SCOPE, JOBS, bodies[:1], ["another"])
    assert [type(each) for each in ids] == [str], "repeats are over: the short way again"
    assert await desk.states() == {"pending": 5}


async def test_a_message_that_found_no_room_does_not_hold_its_key(desk: Desk) -> None:
    await desk.queue(max_depth=1)
    await desk.ids(new(1))
    (refused,) = await desk.outcomes(new(2, idempotency_key="k"))
    assert isinstance(refused, Refusal)
    await desk.drain()
    (outcome,) = await desk.outcomes(new(2, idempotency_key="k"))
    assert isinstance(outcome, Published)
    assert not outcome.duplicate

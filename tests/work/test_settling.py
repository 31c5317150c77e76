"""The token is the right to settle: once, by whoever holds it, and again only to hear the same."""

import asyncio

import msgspec
import pytest

from relevo.contract.claims import Claimed, Settled
from relevo.errors import PermissionDenied
from relevo.work.message.verdict import SettleItem, Verdict
from tests.support.desk import JOBS, SCOPE, Desk, new

VERDICTS: tuple[Verdict, ...] = ("complete", "fail", "release", "extend")


def code(settled: Settled) -> str | None:
    return None if settled.refusal is None else settled.refusal.code


def with_token(claimed: Claimed, token: str) -> Claimed:
    return msgspec.structs.replace(claimed, claim_token=token)


@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_wrong_token_settles_nothing(desk: Desk, verdict: Verdict) -> None:
    await desk.queue()
    await desk.ids(new())
    (claimed,) = await desk.claim()
    (settled,) = await desk.settle(verdict, with_token(claimed, "0" * 26), queue=JOBS)
    assert code(settled) == "CLAIM_LOST"
    assert (await desk.row(claimed.id))["state"] == "claimed"


@pytest.mark.parametrize("verdict", ["complete", "fail", "release"])
async def test_the_same_verdict_again_is_answered_as_done_and_does_nothing(desk: Desk, verdict: Verdict) -> None:
    await desk.queue(backoff_initial_ms=60_000)
    await desk.ids(new())
    (claimed,) = await desk.claim()
    first = await desk.settle(verdict, claimed, queue=JOBS)
    before = await desk.row(claimed.id)
    assert await desk.settle(verdict, claimed, queue=JOBS) == first
    assert await desk.row(claimed.id) == before


@pytest.mark.parametrize("first", ["complete", "fail", "release"])
@pytest.mark.parametrize("second", VERDICTS)
async def test_another_verdict_after_the_first_is_lost(desk: Desk, first: Verdict, second: Verdict) -> None:
    if first == second:
        second = "extend"
    await desk.queue(backoff_initial_ms=60_000)
    await desk.ids(new())
    (claimed,) = await desk.claim()
    await desk.settle(first, claimed, queue=JOBS)
    (settled,) = await desk.settle(second, claimed, queue=JOBS)
    assert code(settled) == "CLAIM_LOST"


async def test_a_zombie_cannot_finish_what_another_holds(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new())
    (zombie,) = await desk.claim()
    await desk.settle("release", zombie, queue=JOBS)
    (owner,) = await desk.claim()
    for verdict in VERDICTS:
        (settled,) = await desk.settle(verdict, zombie, queue=JOBS)
        assert code(settled) == "CLAIM_LOST"
    (settled,) = await desk.settle("complete", owner, queue=JOBS)
    assert settled.state == "completed"


async def test_verdicts_that_meet_settle_once(desk: Desk) -> None:
    await desk.queue(backoff_initial_ms=60_000)
    await desk.ids(*(new(n) for n in range(10)))
    claimed = await desk.claim(10)
    outcomes = await asyncio.gather(
        *(desk.settle(verdict, claimed, queue=JOBS) for verdict in ("complete", "fail", "release") * 3)
    )
    for at, message in enumerate(claimed):
        states = {outcome[at].state for outcome in outcomes if outcome[at].refusal is None}
        assert len(states) == 1
        assert states == {(await desk.row(message.id))["state"]}


async def test_one_message_named_twice_in_a_call_is_settled_once(desk: Desk) -> None:
    await desk.queue(backoff_initial_ms=60_000)
    await desk.ids(new(), new())
    first, second = await desk.claim(2)
    assert [each.state for each in await desk.settle("complete", [first, first], queue=JOBS)] == ["completed"] * 2
    assert [each.state for each in await desk.settle("fail", [second, second], queue=JOBS)] == ["delayed"] * 2
    assert await desk.states() == {"completed": 1, "delayed": 1}
    assert (await desk.depth()).delayed == 1


async def test_a_batch_settles_what_it_can_and_names_the_rest(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(*(new(n) for n in range(3)))
    mine, lost, gone = await desk.claim(3)
    await desk.settle("release", lost, queue=JOBS)
    items = [mine, lost, msgspec.structs.replace(gone, id="01J9ZZZZZZZZZZZZZZZZZZZZZZ")]
    assert [code(each) or each.state for each in await desk.settle("complete", items, queue=JOBS)] == [
        "completed",
        "CLAIM_LOST",
        "NOT_FOUND",
    ]


async def test_a_message_of_another_queue_is_not_found_through_this_one(desk: Desk) -> None:
    await desk.queue()
    await desk.queue("others")
    await desk.ids(new())
    (claimed,) = await desk.claim()
    for verdict in VERDICTS:
        (settled,) = await desk.settle(verdict, claimed, queue="others")
        assert code(settled) == "NOT_FOUND"
    (settled,) = await desk.settle("complete", claimed)
    assert settled.state == "completed"


async def test_a_key_for_other_queues_does_not_see_the_message(desk: Desk) -> None:
    await desk.queue()
    await desk.queue("others")
    await desk.ids(new())
    (claimed,) = await desk.claim()
    stranger = desk.by(msgspec.structs.replace(desk.caller, queues=frozenset({"others"})))
    for verdict in VERDICTS:
        (settled,) = await stranger.settle(verdict, claimed)
        assert code(settled) == "NOT_FOUND"
    owner = desk.by(msgspec.structs.replace(desk.caller, queues=frozenset({JOBS})))
    (settled,) = await owner.settle("complete", claimed)
    assert settled.state == "completed"


async def test_another_tenant_finds_nothing(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new())
    (claimed,) = await desk.claim()
    tenant = await desk.work_queues.tenants.create(f"x{claimed.id[-12:].lower()}")
    thief = desk.by(desk.work_queues.tenants.caller(tenant))
    await desk.work_queues.scopes.create(thief.caller, SCOPE)
    for verdict in VERDICTS:
        (settled,) = await thief.settle(verdict, claimed)
        assert code(settled) == "NOT_FOUND"


async def test_consuming_needs_its_permission(desk: Desk) -> None:
    await desk.queue()
    reader = desk.by(msgspec.structs.replace(desk.caller, permissions=frozenset({"view", "publish"})))
    with pytest.raises(PermissionDenied):
        await reader.claim()
    with pytest.raises(PermissionDenied):
        await reader.work_queues.settlements.settle(
            reader.caller, SCOPE, "complete", [SettleItem(id="x", claim_token="y")]
        )


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 43_201.0])
async def test_an_extension_that_cannot_be_is_refused(desk: Desk, seconds: float) -> None:
    await desk.queue()
    await desk.ids(new())
    (claimed,) = await desk.claim()
    (settled,) = await desk.settle("extend", claimed, seconds=seconds, queue=JOBS)
    assert code(settled) == "INVALID_INPUT"

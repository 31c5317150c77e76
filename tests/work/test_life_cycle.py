"""What becomes of a message: published, claimed, settled."""

import importlib

import msgspec
import pytest

from relevo.contract.messages import Published, Refusal
from relevo.errors import InvalidInput, QueueArchived, QueueDraining, QueuePaused, ScopePaused
from relevo.work.store.counters import Depth
from tests.clock import Clock
from tests.support.desk import JOBS, SCOPE, Desk, new, number


async def test_a_completed_message_keeps_its_result_and_its_history(desk: Desk) -> None:
    await desk.queue()
    (message_id,) = await desk.ids(new(7))
    (claimed,) = await desk.claim()
    assert (claimed.id, number(claimed), claimed.attempts) == (message_id, 7, 1)
    (settled,) = await desk.settle("complete", claimed, result=msgspec.Raw(b'{"ok": true}'), queue=JOBS)
    assert (settled.state, settled.refusal) == ("completed", None)
    row = await desk.row(message_id)
    assert (row["state"], row["result"]) == ("completed", '{"ok": true}')
    assert await desk.history(message_id) == ["published", "claimed", "completed"]


async def test_a_body_comes_back_byte_for_byte(desk: Desk) -> None:
    await desk.queue()
    body = '{ "b":1,"a" :[1.50, "ünï\\u00e9", "漢字 🐢"],"nul":"\\u0000" }'.encode()
    await desk.outcomes(msgspec.structs.replace(new(), body=msgspec.Raw(body)))
    (claimed,) = await desk.claim()
    assert bytes(claimed.body) == body


async def test_what_a_publisher_says_of_a_message_comes_with_it(desk: Desk) -> None:
    await desk.queue()
    (first,) = await desk.ids(new())
    fields = {
        "message_type": "invoice",
        "priority_tier": "high",
        "priority_score": 5,
        "labels": {"a": "1", "ü": ""},
        "correlation_id": "c-1",
        "causation_id": "c-0",
        "parent_id": first,
        "content_type": "application/x+json",
    }
    await desk.ids(new(1, **fields))
    _, claimed = await desk.claim(2)
    assert {name: getattr(claimed, name) for name in fields if name != "labels"} == {
        name: value for name, value in fields.items() if name != "labels"
    }
    assert msgspec.json.decode(msgspec.json.encode(claimed.labels)) == {"a": "1", "ü": ""}


async def test_a_message_without_a_correlation_id_begins_one(desk: Desk) -> None:
    await desk.queue()
    (message_id,) = await desk.ids(new())
    (claimed,) = await desk.claim()
    assert claimed.correlation_id == message_id


async def test_a_claimed_message_is_not_given_out_twice(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new())
    assert len(await desk.claim()) == 1
    assert await desk.claim() == []


async def test_depths_follow_every_change(desk: Desk) -> None:
    await desk.queue(backoff_initial_ms=60_000)
    await desk.ids(*(new(n) for n in range(5)), new(5, delay_s=600))
    claimed = await desk.claim(4)
    await desk.settle("complete", claimed[0], queue=JOBS)
    await desk.settle("release", claimed[1], queue=JOBS)
    await desk.settle("fail", claimed[2], queue=JOBS)
    assert await desk.depth() == Depth(pending=2, delayed=2, claimed=1)
    assert await desk.states() == {"pending": 2, "delayed": 2, "claimed": 1, "completed": 1}


async def test_a_released_message_is_first_again_and_the_attempt_does_not_count(desk: Desk) -> None:
    await desk.queue()
    first, _ = await desk.ids(new(), new())
    (claimed,) = await desk.claim()
    await desk.settle("release", claimed, queue=JOBS)
    (again,) = await desk.claim()
    assert (again.id, again.attempts) == (first, 1)


async def test_an_extended_claim_lasts_from_now_on(desk: Desk, clock: Clock) -> None:
    await desk.queue(visibility_timeout_s=30)
    await desk.ids(new())
    (claimed,) = await desk.claim()
    clock.turn(20)
    before = clock()
    (settled,) = await desk.settle("extend", claimed, seconds=100, queue=JOBS)
    assert settled.claim_until is not None
    assert before + 100_000 <= settled.claim_until <= clock() + 100_000
    assert (await desk.row(claimed.id))["claim_until"] == settled.claim_until


async def test_a_delayed_message_is_not_claimed(desk: Desk) -> None:
    await desk.queue()
    outcomes = await desk.outcomes(new(1, delay_s=60), new(2))
    assert [each.state for each in outcomes if isinstance(each, Published)] == ["delayed", "pending"]
    assert [number(each) for each in await desk.claim(10)] == [2]


async def test_a_time_that_has_passed_is_no_delay(desk: Desk, clock: Clock) -> None:
    await desk.queue()
    (outcome,) = await desk.outcomes(new(1, visible_at=clock() - 1))
    assert isinstance(outcome, Published)
    assert outcome.state == "pending"


async def test_a_message_that_cannot_be_is_refused_and_its_neighbours_are_not(desk: Desk) -> None:
    await desk.queue()
    wrong = [
        new(1, priority_score=1000),
        new(2, labels={"": "x"}),
        new(3, message_type="a\0b"),
        new(4, ttl_s=0),
        new(5, delay_s=-1),
        new(6, parent_id="nobody"),
        new(7, correlation_id="x" * 201),
        msgspec.structs.replace(new(8), body=msgspec.Raw(b'"' + b"x" * 1_048_576 + b'"')),
        new(9, delay_s=1, visible_at=2**41),
        new(10, deadline=-5),
    ]
    outcomes = await desk.outcomes(new(0), *wrong, new(11))
    assert [each.code for each in outcomes if isinstance(each, Refusal)] == ["INVALID_INPUT"] * len(wrong)
    assert [number(each) for each in await desk.claim(20)] == [0, 11]


@pytest.mark.parametrize("rare", [True, False])
async def test_labels_choose_what_is_claimed(desk: Desk, rare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the messages that carry them when those are few, else along the queue's order."""
    driver = importlib.import_module(f"relevo.work.store.{desk.work_queues.dialect}.driver")
    monkeypatch.setattr(driver, "RARE", 2_000 if rare else 1)
    await desk.queue()
    await desk.ids(*(new(n, labels={"kind": "ab"[n % 2], "third": str(n % 3)}) for n in range(12)))
    claimed = await desk.claim(10, labels={"kind": "b", "third": "0"})
    assert [number(each) for each in claimed] == [3, 9]
    assert await desk.claim(10, labels={"kind": "c"}) == []
    assert [number(each) for each in await desk.claim(3, labels={"kind": "a"})] == [0, 2, 4]


@pytest.mark.parametrize(
    ("state", "error"), [("paused", QueuePaused), ("draining", QueueDraining), ("archived", QueueArchived)]
)
async def test_a_queue_that_is_not_active_takes_nothing_in(desk: Desk, state: str, error: type[Exception]) -> None:
    await desk.queue()
    await desk.work_queues.queues.change(desk.caller, SCOPE, JOBS, {"state": state})
    with pytest.raises(error):
        await desk.outcomes(new())


async def test_a_draining_queue_gives_out_what_it_has(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new())
    await desk.work_queues.queues.change(desk.caller, SCOPE, JOBS, {"state": "draining"})
    assert len(await desk.claim()) == 1


async def test_a_paused_queue_gives_nothing_out_and_takes_settles(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new(), new())
    (claimed,) = await desk.claim()
    await desk.work_queues.queues.change(desk.caller, SCOPE, JOBS, {"state": "paused"})
    with pytest.raises(QueuePaused):
        await desk.claim()
    (settled,) = await desk.settle("complete", claimed, queue=JOBS)
    assert settled.state == "completed"


async def test_a_paused_scope_closes_its_queues(desk: Desk) -> None:
    await desk.queue()
    await desk.work_queues.scopes.change(desk.caller, SCOPE, {"state": "paused"})
    with pytest.raises(ScopePaused):
        await desk.outcomes(new())
    with pytest.raises(ScopePaused):
        await desk.claim()


@pytest.mark.parametrize(
    "how", [{"count": 0}, {"count": 1001}, {"wait_s": -1}, {"wait_s": 61}, {"consumer": ""}, {"labels": {"a": "\0"}}]
)
async def test_a_claim_that_cannot_be_is_refused(desk: Desk, how: dict[str, object]) -> None:
    await desk.queue()
    with pytest.raises(InvalidInput):
        await desk.claim(**how)  # pyright: ignore[reportArgumentType]


async def test_a_cancelled_message_is_never_claimed(desk: Desk) -> None:
    await desk.queue()
    first, second = await desk.ids(new(1), new(2))
    assert await desk.work_queues.messages.cancel(desk.caller, SCOPE, first, reason="not wanted") == "cancelled"
    assert [each.id for each in await desk.claim(5)] == [second]
    assert (await desk.row(first))["failure_reason"] == "not wanted"
    assert await desk.depth() == Depth(claimed=1)


@pytest.mark.parametrize("labels", [None, {"for": "a"}])
async def test_a_message_that_has_outlived_its_ttl_is_not_claimed(
    desk: Desk, clock: Clock, labels: dict[str, str] | None
) -> None:
    """It was handed out until the enforcer came, once a minute."""
    await desk.queue()
    carried = {"labels": labels} if labels else {}
    (outlived, _) = await desk.ids(new(1, ttl_s=60, **carried), new(2, ttl_s=62, **carried))
    clock.turn(s=61)
    assert [number(each) for each in await desk.claim(2, labels=labels)] == [2]
    assert (await desk.row(outlived))["state"] == "expired"

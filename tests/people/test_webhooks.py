"""Events reach other people's servers: signed, tried again, logged, and given up when nobody listens."""

import logging
import time
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import select

from relevo.agents.webhook_sender import WebhookSender
from relevo.contract.webhooks import Delivery, NewSecret
from relevo.errors import BadWebhookUrl, InvalidInput, NotFound, WrongState
from relevo.work.audit.entries import AuditFilter
from relevo.work.store.outbox import OutboxRow, WorkEvent, encode_each
from relevo.work.store.tables import webhook_deliveries, webhooks
from relevo.work.webhooks.deliveries import RETRIES_MS, Due
from relevo.work.webhooks.hooks import MOST_FAILURES
from relevo.work.webhooks.signature import verify
from tests.people.conftest import relay
from tests.people.receiver import Receiver
from tests.servers.stores import STORES
from tests.support.desk import SCOPE, Desk

pytestmark = pytest.mark.parametrize("store", STORES)


async def hooked(desk: Desk, url: str, *events: Any) -> NewSecret:
    return await desk.work_queues.webhooks.create(desk.caller, SCOPE, url, events)


async def told(desk: Desk) -> int:
    """Relays, and lets the courier send what is due."""
    await relay(desk)
    return (await WebhookSender(desk.work_queues).work()).items


async def log_of(desk: Desk, webhook_id: str, **wanted: Any) -> list[Delivery]:
    return (await desk.work_queues.webhook_deliveries.list(desk.caller, SCOPE, webhook_id, **wanted)).items


async def test_an_event_arrives_signed_with_the_secret_that_was_shown(desk: Desk, receiver: Receiver) -> None:
    made = await hooked(desk, receiver.url())
    (message_id,) = await desk.publish(correlation_id="order-17")
    assert await told(desk) == 1
    (got,) = receiver.got
    verify(got.headers["relevo-signature"], got.body, made.secret, int(time.time()))
    said = msgspec.json.decode(got.body)
    assert (said["event"], said["message_id"], said["queue"], said["scope"]) == ("published", message_id, "jobs", SCOPE)
    assert said["correlation_id"] == "order-17"
    (line,) = await log_of(desk, made.webhook.id)
    assert (line.state, line.attempts, line.last_status, line.id) == (
        "delivered",
        1,
        204,
        got.headers["relevo-delivery"],
    )


async def test_a_relay_that_comes_twice_makes_no_second_delivery(desk: Desk, receiver: Receiver) -> None:
    made = await hooked(desk, receiver.url())
    queue = await desk.work_queues.queues.lookup(desk.caller, SCOPE, "jobs")
    event = WorkEvent("published", queue.id, "01J9ZZZZZZZZZZZZZZZZZZZZZZ", 1, "m", "c")
    row = OutboxRow(7, 1, encode_each([event, event]), copied=False)
    for _ in range(2):
        await desk.work_queues.transactions.run(
            lambda each: desk.work_queues.webhook_deliveries.make(each, [row], {queue.id: queue}),
        )
    assert len(await log_of(desk, made.webhook.id)) == 2


async def test_two_who_send_the_same_delivery_send_it_once(desk: Desk, receiver: Receiver) -> None:
    await hooked(desk, receiver.url())
    await desk.publish()
    await relay(desk)
    (due,) = await desk.work_queues.webhook_deliveries.due_now(limit=10)
    assert await desk.work_queues.webhook_deliveries.attempt(due) is not None
    assert await desk.work_queues.webhook_deliveries.attempt(due) is None
    assert len(receiver.got) == 1


async def test_what_a_sender_that_died_had_taken_is_due_again_a_minute_later(desk: Desk, receiver: Receiver) -> None:
    await hooked(desk, receiver.url())
    await desk.publish()
    await relay(desk)
    (due,) = await desk.work_queues.webhook_deliveries.due_now(limit=10)
    await desk.work_queues.webhook_deliveries._take(due)  # pyright: ignore[reportPrivateUsage]
    assert await desk.work_queues.webhook_deliveries.due_now(limit=10) == []
    desk.clock.turn(s=61)
    assert await told(desk) == 1
    assert len(receiver.got) == 1


async def test_only_the_events_that_were_asked_for_are_told(desk: Desk, receiver: Receiver) -> None:
    await hooked(desk, receiver.url(), "completed")
    await desk.publish()
    await desk.settle("complete", await desk.claim())
    await told(desk)
    assert [got.event for got in receiver.got] == ["completed"]


async def test_another_scope_hears_nothing(desk: Desk, receiver: Receiver) -> None:
    await desk.work_queues.scopes.create(desk.caller, "other")
    await desk.work_queues.webhooks.create(desk.caller, "other", receiver.url())
    await desk.publish()
    assert await told(desk) == 0


async def test_a_failure_is_tried_again_after_each_of_the_waits_and_then_given_up(
    desk: Desk, receiver: Receiver
) -> None:
    made = await hooked(desk, receiver.url())
    receiver.answer("/hook", 500, b"out of order\x00\x1b[31m" + b"x" * 10_000)
    await desk.publish()
    assert await told(desk) == 1
    for wait_ms in RETRIES_MS:
        (line,) = await log_of(desk, made.webhook.id)
        assert line.state == "waiting"
        assert line.next_at == line.updated_at + wait_ms
        desk.clock.turn(s=wait_ms / 1000 - 10)
        assert await told(desk) == 0
        desk.clock.turn(s=11)
        assert await told(desk) == 1
    (line,) = await log_of(desk, made.webhook.id)
    assert (line.state, line.attempts, line.last_status, line.next_at) == ("failed", 9, 500, None)
    assert line.last_error is not None
    assert line.last_error.startswith("it answered 500: out of order [31mxxx")
    assert len(line.last_error) < 250


async def test_fifty_failures_in_a_row_disable_a_webhook_and_say_why(desk: Desk, receiver: Receiver) -> None:
    made = await hooked(desk, receiver.url())
    receiver.answer("/hook", 410, b"moved out")
    await desk.publish(MOST_FAILURES + 5)
    await relay(desk)
    courier = WebhookSender(desk.work_queues)
    while (await courier.work()).items:
        pass
    hook = await desk.work_queues.webhooks.get(desk.caller, SCOPE, made.webhook.id)
    assert hook.state == "disabled"
    assert hook.disabled_reason is not None
    assert "it answered 410: moved out" in hook.disabled_reason
    assert {line.state for line in await log_of(desk, made.webhook.id)} == {"failed"}
    audit = await desk.work_queues.audit.list(desk.caller, AuditFilter(action="webhook.disable"))
    assert [entry.target for entry in audit.items] == [made.webhook.id]
    before = len(receiver.got)
    await desk.publish()
    await told(desk)
    assert len(receiver.got) == before


async def test_a_success_forgets_the_failures_before_it(desk: Desk, receiver: Receiver) -> None:
    made = await hooked(desk, receiver.url())
    receiver.answer("/hook", 500)
    await desk.publish(3)
    await told(desk)
    assert (await desk.work_queues.webhooks.get(desk.caller, SCOPE, made.webhook.id)).failures_in_a_row == 3
    receiver.answers.clear()
    await desk.publish()
    await told(desk)
    assert (await desk.work_queues.webhooks.get(desk.caller, SCOPE, made.webhook.id)).failures_in_a_row == 0


async def test_a_disabled_webhook_is_switched_on_again_and_what_failed_is_sent_by_hand(
    desk: Desk, receiver: Receiver
) -> None:
    made = await hooked(desk, receiver.url())
    await desk.publish()
    await relay(desk)
    await desk.work_queues.webhooks.change(desk.caller, SCOPE, made.webhook.id, state="disabled")
    (line,) = await log_of(desk, made.webhook.id)
    assert line.state == "failed"
    with pytest.raises(WrongState):
        await desk.work_queues.webhook_deliveries.redeliver(desk.caller, SCOPE, made.webhook.id, line.id)
    await desk.work_queues.webhooks.change(desk.caller, SCOPE, made.webhook.id, state="active")
    again = await desk.work_queues.webhook_deliveries.redeliver(desk.caller, SCOPE, made.webhook.id, line.id)
    assert (again.state, again.attempts) == ("waiting", 0)
    await told(desk)
    assert [got.headers["relevo-delivery"] for got in receiver.got] == [line.id]


async def test_during_a_rotation_both_secrets_fit_and_afterwards_only_the_new_one(
    desk: Desk, receiver: Receiver
) -> None:
    old = await hooked(desk, receiver.url())
    new = await desk.work_queues.webhooks.rotate(desk.caller, SCOPE, old.webhook.id, overlap_s=3_600)
    assert new.webhook.secrets == 2
    await desk.publish()
    await told(desk)
    for secret in (old.secret, new.secret):
        verify(receiver.got[0].headers["relevo-signature"], receiver.got[0].body, secret, int(time.time()))
    desk.clock.turn(s=3_601)
    await desk.publish()
    await told(desk)
    assert receiver.got[1].headers["relevo-signature"].count("v1=") == 1
    verify(receiver.got[1].headers["relevo-signature"], receiver.got[1].body, new.secret, desk.clock() // 1000)


async def test_secrets_and_addresses_are_nowhere_but_in_their_own_row(
    desk: Desk, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="relevo")
    made = await hooked(desk, receiver.url("/hook?token=hush"))
    turned = await desk.work_queues.webhooks.rotate(desk.caller, SCOPE, made.webhook.id)
    receiver.answer("/hook?token=hush", 500, b"no")
    await desk.publish()
    await told(desk)
    listed = msgspec.json.encode((await desk.work_queues.webhooks.list(desk.caller, SCOPE)).items).decode()
    audit = await desk.work_queues.audit.list(desk.caller, AuditFilter())
    told_to_people = listed + msgspec.json.encode(audit.items).decode() + caplog.text
    told_to_people += msgspec.json.encode(await log_of(desk, made.webhook.id)).decode()
    for secret in (made.secret, turned.secret):
        assert secret not in told_to_people
        assert secret.removeprefix("whsec_") not in told_to_people
    assert "hush" not in msgspec.json.encode(audit.items).decode() + caplog.text


async def test_the_log_is_filtered_and_paged(desk: Desk, receiver: Receiver) -> None:
    made = await hooked(desk, receiver.url())
    ids = await desk.publish(3)
    await desk.settle("complete", await desk.claim())
    await told(desk)
    done = await log_of(desk, made.webhook.id, event="completed")
    assert [line.message_id for line in done] == [ids[0]]
    assert {line.event for line in await log_of(desk, made.webhook.id, message_id=ids[0])} == {
        *("published", "claimed", "completed"),
    }
    first = await desk.work_queues.webhook_deliveries.list(desk.caller, SCOPE, made.webhook.id, limit=2)
    rest = await desk.work_queues.webhook_deliveries.list(
        desk.caller, SCOPE, made.webhook.id, limit=10, cursor=first.next_cursor
    )
    assert len({line.id for line in first.items + rest.items}) == 5
    assert await log_of(desk, made.webhook.id, state="failed") == []


async def test_deliveries_of_a_month_ago_are_forgotten(desk: Desk, receiver: Receiver) -> None:
    made = await hooked(desk, receiver.url())
    await desk.publish()
    await told(desk)
    desk.clock.turn(minutes=60 * 24 * 31)
    await WebhookSender(desk.work_queues).work()
    assert await log_of(desk, made.webhook.id) == []


async def test_a_deleted_webhook_takes_its_log_with_it(desk: Desk, receiver: Receiver) -> None:
    made = await hooked(desk, receiver.url())
    await desk.publish()
    await relay(desk)
    await desk.work_queues.webhooks.delete(desk.caller, SCOPE, made.webhook.id)
    async with desk.work_queues.database.connect() as connection:
        assert (await connection.execute(select(webhook_deliveries))).all() == []
        assert (await connection.execute(select(webhooks))).all() == []
    with pytest.raises(NotFound):
        await desk.work_queues.webhooks.get(desk.caller, SCOPE, made.webhook.id)


@pytest.mark.parametrize(
    "url", ["http://example.org/", "ftp://example.org", "https://user:pass@example.org/", "https://", "no address"]
)
async def test_an_address_that_can_never_be_a_target_is_refused(desk: Desk, url: str) -> None:
    with pytest.raises(BadWebhookUrl) as refused:
        await hooked(desk, url)
    assert "pass@" not in str(refused.value)


async def test_an_event_that_does_not_exist_is_refused(desk: Desk, receiver: Receiver) -> None:
    with pytest.raises(InvalidInput, match="there is no event 'sneezed'"):
        await hooked(desk, receiver.url(), "sneezed")


async def test_a_key_of_some_queues_cannot_have_events_sent(desk: Desk, receiver: Receiver) -> None:
    limited = replace(desk.caller, actor="key:x", queues=frozenset({"jobs"}))
    with pytest.raises(NotFound):
        await desk.work_queues.webhooks.create(limited, SCOPE, receiver.url())


async def test_a_delivery_that_is_gone_is_not_sent(desk: Desk) -> None:
    assert await desk.work_queues.webhook_deliveries.attempt(Due("01J9ZZZZZZZZZZZZZZZZZZZZZZ", "x", 0)) is None

"""Whoever decides, delivers or erases may be killed at any point: nothing is lost, doubled or in two places."""

import msgspec
import pytest
from sqlalchemy import select

from relevo.agents.erasure_runner import ErasureRunner
from relevo.agents.webhook_sender import WebhookSender
from relevo.contract.messages import NewMessage
from relevo.work.retention.erasure import digest_of
from relevo.work.store.counters import Depth, depths_of
from relevo.work.store.tables import erasures, live, reviews
from tests.patience import until
from tests.people.conftest import relay
from tests.people.receiver import Receiver
from tests.servers.stores import STORES
from tests.support.desk import SCOPE, Desk
from tests.support.killed_errand import killed

pytestmark = [pytest.mark.parametrize("store", STORES), pytest.mark.timeout(200)]


async def depths(desk: Desk) -> list[Depth]:
    queue = await desk.work_queues.queues.lookup(desk.caller, SCOPE, "jobs")
    found = await depths_of(desk.work_queues.database, [queue.id, queue.dead_letter_id])
    return [found[queue.id], found[queue.dead_letter_id]]


async def assert_audit_is_sound(desk: Desk) -> None:
    assert (await desk.work_queues.audit_integrity.verify()).findings == []


@pytest.mark.parametrize("point", ["review.begun", "review.written", "review.committed"])
async def test_a_decision_killed_at_this_point_is_made_once(desk: Desk, point: str) -> None:
    (message_id,) = await desk.die()
    review = await desk.work_queues.reviews.open_for_dead_letter(desk.caller, SCOPE, message_id)
    await killed(desk.work_queues, desk.caller.tenant_id, "decide", point, review_id=review.id)

    async def decided() -> bool:  # the server may still be ending the dead one's transaction
        found = await desk.work_queues.reviews.get(desk.caller, SCOPE, review.id)
        if found.state != "decided":
            answer = {"decision": "approve"}
            await desk.work_queues.reviews.decide(
                desk.caller, SCOPE, review.id, "ada", answer, corrected_body={"corrected": True}
            )
        return (await desk.work_queues.reviews.get(desk.caller, SCOPE, review.id)).state == "decided"

    assert (await desk.work_queues.reviews.get(desk.caller, SCOPE, review.id)).state == (
        "decided" if point == "review.committed" else "waiting"
    )
    await until(decided)
    row = await desk.row(message_id)
    assert (row["state"], row["replays"], msgspec.json.decode(row["body"])) == ("pending", 1, {"corrected": True})
    assert await depths(desk) == [Depth(pending=1), Depth()]
    assert [each.id for each in await desk.claim(10)] == [message_id]
    await assert_audit_is_sound(desk)


@pytest.mark.parametrize("point", ["review.begun", "review.written", "review.committed"])
async def test_a_review_claimed_by_somebody_who_was_killed_has_one_holder_or_none(desk: Desk, point: str) -> None:
    (message_id,) = await desk.die()
    review = await desk.work_queues.reviews.open_for_dead_letter(desk.caller, SCOPE, message_id)
    await killed(desk.work_queues, desk.caller.tenant_id, "claim_review", point, review_id=review.id)
    found = await desk.work_queues.reviews.get(desk.caller, SCOPE, review.id)
    assert (found.state, found.holder) == (("held", "ada") if point == "review.committed" else ("waiting", None))
    assert (await desk.row(message_id))["state"] == "in_review"
    async with desk.work_queues.database.connect() as connection:
        assert len((await connection.execute(select(reviews.c.id))).all()) == 1


@pytest.mark.parametrize("point", ["webhook.taken", "webhook.sent"])
async def test_a_delivery_killed_at_this_point_arrives_under_one_id(desk: Desk, receiver: Receiver, point: str) -> None:
    made = await desk.work_queues.webhooks.create(desk.caller, SCOPE, receiver.url(), ["published"])
    await desk.publish()
    await relay(desk)
    await killed(desk.work_queues, desk.caller.tenant_id, "deliver", point)
    before = len(receiver.got)
    assert before == (0 if point == "webhook.taken" else 1)
    courier = WebhookSender(desk.work_queues)
    await courier.work()
    assert len(receiver.got) == before, "it is still the dead one's"
    desk.clock.turn(minutes=2)
    await courier.work()
    await courier.work()
    assert len(receiver.got) == before + 1
    assert len({got.headers["relevo-delivery"] for got in receiver.got}) == 1, "a receiver knows a repetition by its id"
    (line,) = (await desk.work_queues.webhook_deliveries.list(desk.caller, SCOPE, made.webhook.id)).items
    assert (line.state, line.attempts) == ("delivered", 1)


@pytest.mark.parametrize("point", ["erasure.erased", "erasure.forgotten"])
async def test_an_erasure_killed_at_this_point_is_carried_on(desk: Desk, point: str) -> None:
    new = [NewMessage(body=msgspec.Raw(b'"petiolatum"'), labels={"subject": "ada"}) for _ in range(20)]
    await desk.work_queues.messages.publish(desk.caller, SCOPE, "jobs", new)
    await killed(desk.work_queues, desk.caller.tenant_id, "erase", point, subject="ada")
    async with desk.work_queues.database.connect() as connection:
        states = (await connection.execute(select(erasures.c.state, erasures.c.subject_digest))).all()
    assert [tuple(row) for row in states] == [("running", digest_of("ada"))]

    async def over() -> bool:
        await ErasureRunner(desk.work_queues).work()
        return await desk.work_queues.erasures.running() == []

    await until(over)
    async with desk.work_queues.database.connect() as connection:
        rows = (await connection.execute(select(live))).mappings().all()
    assert {(row["state"], row["body"]) for row in rows} == {("cancelled", None)}
    assert all(row["trail"].count('"erased"') == 1 for row in rows)
    assert await depths(desk) == [Depth(), Depth()]
    await assert_audit_is_sound(desk)

"""Nothing of what a subject's messages said can be found again; that they were there, and that they were erased, can."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from relevo.agents.erasure_runner import ErasureRunner
from relevo.agents.message_archiver import MessageArchiver
from relevo.agents.replay_runner import ReplayRunner
from relevo.agents.webhook_sender import WebhookSender
from relevo.contract.erasures import Erasure
from relevo.contract.messages import NewMessage, Published, Refusal
from relevo.errors import IdempotencyConflict, NotFound, WrongState
from relevo.work.audit.entries import AuditFilter
from relevo.work.dead_letters.replays import ReplayFilter
from relevo.work.faults import arm
from relevo.work.message.failure import Failure
from relevo.work.retention import erasure
from relevo.work.retention.erasure import digest_of
from relevo.work.review.reviews import Reviews
from relevo.work.review.spec import ReviewSpec, Section
from relevo.work.store.counters import Depth, depths_of
from relevo.work.store.outbox import WorkEvent, decode
from relevo.work.store.tables import erased, metadata, outbox
from tests.people.conftest import relay
from tests.people.receiver import Receiver
from tests.servers.stores import STORES
from tests.support.desk import SCOPE, Desk

pytestmark = pytest.mark.parametrize("store", STORES)

WORD = "Zyxomma-petiolatum"
"""What must not be found again; nothing else here says it."""


async def publish(desk: Desk, subject: str | None = "ada", queue: str = "jobs", **fields: Any) -> str:
    tags = {"kind": "letter"} | ({} if subject is None else {"subject": subject})
    new = NewMessage(body=msgspec.Raw(msgspec.json.encode({"says": WORD})), labels=tags, **fields)
    (outcome,) = await desk.work_queues.messages.publish(desk.caller, SCOPE, queue, [new])
    assert isinstance(outcome, Published)
    return outcome.id


async def erase(desk: Desk, subject: str = "ada") -> Erasure:
    return await desk.work_queues.erasures.start(desk.caller, SCOPE, subject)


async def said(desk: Desk) -> str:
    """Everything that the tables say."""
    text = ""
    async with desk.work_queues.database.connect() as connection:
        for table in metadata.sorted_tables:
            text += str((await connection.execute(select(table))).all())
    return text


async def fail(desk: Desk, message_id: str, **how: Any) -> None:
    claimed = await desk.claim()
    assert [each.id for each in claimed] == [message_id]
    error = Failure(type=f"Bad{WORD}", message=f"no {WORD}", stack=f"at {WORD}")
    await desk.settle("fail", claimed, reason=f"cannot read {WORD}", error=error, **how)


async def test_bodies_results_reasons_and_the_label_go_from_every_table(desk: Desk, receiver: Receiver) -> None:
    await desk.work_queues.webhooks.create(desk.caller, SCOPE, receiver.url())
    archived = await publish(desk)
    await desk.settle("complete", await desk.claim(), result=msgspec.Raw(msgspec.json.encode(WORD)))
    await relay(desk)
    desk.clock.turn(minutes=61)
    await MessageArchiver(desk.work_queues).work()
    dead = await publish(desk)
    await fail(desk, dead, dead=True)
    retried = await publish(desk)
    await fail(desk, retried)
    streaming = await publish(desk)
    (claimed,) = await desk.claim()
    await desk.work_queues.chunk_streams.append(
        desk.caller, SCOPE, streaming, claimed.claim_token, msgspec.Raw(msgspec.json.encode(WORD)), final=True
    )
    await relay(desk)
    assert WORD in await said(desk)
    done = await erase(desk)
    assert (done.state, done.messages, done.subject_digest) == ("done", 4, digest_of("ada"))
    everything = await said(desk)
    assert WORD not in everything
    assert "'ada'" not in everything
    for message_id in (archived, dead, retried, streaming):
        row = await desk.row(message_id)
        assert (row["body"], row["result"], row["failure_reason"], row["error"]) == (None,) * 4
        assert msgspec.json.decode(row["labels"]) == {"kind": "letter"}
        assert (await desk.history(message_id))[-1] == "erased"


async def test_events_that_share_a_row_of_the_outbox_keep_their_places_and_their_own_reasons(desk: Desk) -> None:
    ada, bob = await publish(desk), await publish(desk, "bob")
    await desk.settle("fail", await desk.claim(2), reason=f"cannot read {WORD}")
    before = await outbox_rows(desk)
    await erase(desk)
    await ErasureRunner(desk.work_queues).work()
    after = {number: events for number, events in (await outbox_rows(desk)).items() if number in before}
    places = [[(event.event, event.id) for event in events] for events in before.values()]
    assert places[-1] == [(event, message_id) for message_id in (ada, bob) for event in ("failed", "retried")]
    assert [[(event.event, event.id) for event in events] for events in after.values()] == places
    reasons = {(event.id, "reason" in (event.extras or {})) for event in list(after.values())[-1]}
    assert reasons == {(ada, False), (bob, True)}


async def outbox_rows(desk: Desk) -> dict[int, list[WorkEvent]]:
    async with desk.work_queues.database.connect() as connection:
        rows = (await connection.execute(select(outbox.c.id, outbox.c.events).order_by(outbox.c.id))).all()
    return {row.id: decode(row.events) for row in rows}


async def test_what_was_still_to_be_done_is_cancelled_and_counted_so(desk: Desk) -> None:
    dead = await publish(desk)
    await fail(desk, dead, dead=True)
    ids = [await publish(desk) for _ in range(3)]
    claimed = await desk.claim()
    await erase(desk)
    assert {(await desk.row(each))["state"] for each in (dead, *ids)} == {"cancelled"}
    queue = await desk.work_queues.queues.lookup(desk.caller, SCOPE, "jobs")
    depths = await depths_of(desk.work_queues.database, [queue.id, queue.dead_letter_id])
    assert set(depths.values()) == {Depth()}
    assert await desk.claim() == []
    late = await desk.settle("complete", claimed, result=msgspec.Raw(msgspec.json.encode(WORD)))
    assert late[0].refusal is not None
    assert late[0].refusal.code == "CLAIM_LOST"
    assert WORD not in await said(desk)


async def test_other_subjects_and_other_scopes_are_left_alone(desk: Desk) -> None:
    await desk.work_queues.scopes.create(desk.caller, "elsewhere")
    mine, other, none = await publish(desk), await publish(desk, "bob"), await publish(desk, None)
    await erase(desk)
    assert (await desk.row(mine))["body"] is None
    for message_id in (other, none):
        assert WORD in (await desk.row(message_id))["body"]
    assert (await desk.work_queues.erasures.start(desk.caller, "elsewhere", "bob")).messages == 0
    assert WORD in (await desk.row(other))["body"]


async def test_reviews_of_the_message_say_nothing_any_more(desk: Desk) -> None:
    message_id = await publish(desk)
    spec = ReviewSpec(title=f"About {WORD}", context=[Section("body", WORD)])
    desk_reviews: Reviews = desk.work_queues.reviews
    row = await desk.review_row(spec, message_id)
    review_id = await desk.work_queues.transactions.run(lambda each: desk_reviews.open(each, row))
    await erase(desk)
    assert WORD not in await said(desk)
    review = await desk_reviews.get(desk.caller, SCOPE, review_id)
    assert (review.state, review.reason, review.title) == ("withdrawn", "erased", "Erased")


async def test_what_people_said_and_corrected_goes_too(desk: Desk) -> None:
    message_id = await publish(desk)
    await fail(desk, message_id, dead=True)
    people: Reviews = desk.work_queues.reviews
    review = await people.open_for_dead_letter(desk.caller, SCOPE, message_id)
    await people.comment(desk.caller, SCOPE, review.id, "eve", f"this is about {WORD}")
    body = {"says": f"{WORD}, corrected"}
    await people.decide(desk.caller, SCOPE, review.id, "eve", {"decision": "approve"}, corrected_body=body)
    assert WORD in await said(desk)
    await erase(desk)
    assert WORD not in await said(desk)


async def test_reasons_that_wait_to_be_relayed_are_not_told(desk: Desk) -> None:
    await fail(desk, await publish(desk))
    assert WORD in await said(desk)
    await erase(desk)
    assert WORD not in await said(desk)


async def test_what_a_replay_looked_for_goes_too(desk: Desk) -> None:
    await fail(desk, await publish(desk), dead=True)
    wanted = ReplayFilter(text=WORD, reason=WORD, labels={"subject": "ada", "kind": "letter"})
    await desk.work_queues.replays.start(desk.caller, SCOPE, wanted)
    while (await ReplayRunner(desk.work_queues).work()).more:
        pass
    await erase(desk)
    everything = await said(desk)
    assert WORD not in everything
    assert '"ada"' not in everything
    assert '"kind":"letter"' in everything


async def test_a_subject_that_nobody_wrote_of_costs_next_to_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the file anew, not a look into Redis: anyone may ask for any name."""
    await publish(desk)

    def too_much(*_: Any) -> None:
        raise AssertionError("there was nothing to erase")

    monkeypatch.setattr(erasure, "_write_anew", too_much)
    monkeypatch.setattr(erasure, "forget_in_streams", too_much)
    done = await erase(desk, "nobody")
    assert (done.state, done.messages) == ("done", 0)
    assert done.finished_at is not None
    assert await desk.work_queues.erasures.running() == []


async def test_copies_in_the_events_queue_go_too(desk: Desk) -> None:
    await desk.work_queues.scopes.change(desk.caller, SCOPE, {"events_to_queue": ["failed"]})
    await fail(desk, await publish(desk))
    await relay(desk)
    (copy,) = await desk.claim(queue="_events")
    assert WORD in bytes(copy.body).decode()
    await erase(desk)
    assert WORD not in await said(desk)


async def test_a_webhook_is_not_told_what_was_erased(desk: Desk, receiver: Receiver) -> None:
    made = await desk.work_queues.webhooks.create(desk.caller, SCOPE, receiver.url(), ["failed"])
    await fail(desk, await publish(desk))
    await relay(desk)
    await erase(desk)
    await WebhookSender(desk.work_queues).work()
    assert receiver.got == []
    (line,) = (await desk.work_queues.webhook_deliveries.list(desk.caller, SCOPE, made.webhook.id)).items
    with pytest.raises(WrongState):
        await desk.work_queues.webhook_deliveries.redeliver(desk.caller, SCOPE, made.webhook.id, line.id)


async def test_the_same_idempotency_key_stays_refused(desk: Desk) -> None:
    await publish(desk, idempotency_key="k1")
    await erase(desk)
    new = NewMessage(body=msgspec.Raw(b'{"says":1}'), idempotency_key="k1")
    (outcome,) = await desk.work_queues.messages.publish(desk.caller, SCOPE, "jobs", [new])
    assert isinstance(outcome, Refusal)
    assert outcome.code == IdempotencyConflict.code


async def test_the_audit_knows_that_it_happened_and_not_to_whom(desk: Desk) -> None:
    await publish(desk)
    done = await erase(desk)
    entries = (await desk.work_queues.audit.list(desk.caller, AuditFilter(target=done.id))).items
    assert [entry.action for entry in entries] == ["erasure.done", "erasure.start"]
    everything = msgspec.json.encode((await desk.work_queues.audit.list(desk.caller, AuditFilter())).items).decode()
    assert WORD not in everything
    assert '"ada"' not in everything
    assert digest_of("ada") in everything


async def test_the_messages_are_listed_for_the_lake(desk: Desk) -> None:
    ids = sorted([await publish(desk) for _ in range(3)])
    done = await erase(desk)
    async with desk.work_queues.database.connect() as connection:
        listed = (await connection.execute(select(erased).order_by(erased.c.message_id))).all()
    assert [(row.erasure_id, row.message_id) for row in listed] == [(done.id, each) for each in ids]


async def test_a_large_erasure_goes_on_after_a_crash_where_it_was(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "BATCH", 4)
    for _ in range(10):
        await publish(desk)
    visits = 0

    def crash() -> None:
        nonlocal visits
        visits += 1
        if visits == 2:
            raise KeyboardInterrupt

    disarm = arm("erasure.erased", crash)
    begun = await erase(desk)
    assert begun.state == "running"
    with pytest.raises(KeyboardInterrupt):
        await ErasureRunner(desk.work_queues).work()
    disarm()
    assert (await said(desk)).count(WORD) == 6
    runner = ErasureRunner(desk.work_queues)
    while (await runner.work()).more:
        pass
    assert WORD not in await said(desk)
    assert (await desk.work_queues.erasures.get(desk.caller, SCOPE, begun.id)).state == "done"


async def test_who_sees_only_some_queues_cannot_erase(desk: Desk) -> None:
    limited = msgspec.structs.replace(desk.caller, queues=frozenset({"jobs"}))
    with pytest.raises(NotFound):
        await desk.work_queues.erasures.start(limited, SCOPE, "ada")


async def test_an_erasure_of_another_scope_is_not_found(desk: Desk) -> None:
    await desk.work_queues.scopes.create(desk.caller, "elsewhere")
    done = await erase(desk)
    with pytest.raises(NotFound):
        await desk.work_queues.erasures.get(desk.caller, "elsewhere", done.id)
    assert [each.id for each in (await desk.work_queues.erasures.list(desk.caller, SCOPE)).items] == [done.id]

"""Why a message failed is told in parts: type, message and stack of the error; and the same text stands everywhere."""

import msgspec
import pytest
from sqlalchemy import select

from relevo.work.dead_letters.listing import DeadLetterFilter
from relevo.work.message.failure import Failure
from relevo.work.reading.message_filter import MessageFilter
from relevo.work.store.outbox import WorkEvent, decode
from relevo.work.store.tables import outbox
from tests.support.desk import SCOPE, Desk, new

pytestmark = pytest.mark.parametrize("lane", ["sqlite-alone", "postgres-sql", "mariadb-index"], indirect=True)
"""Each database once: how a message was claimed makes no difference here."""

STACK = (
    'Traceback (most recent call last):\n  File "shop.py", line 7, in handle\n    body["email"]\nKeyError: \'email\'\n'
)
ERROR = Failure(type="KeyError", message="'email'", stack=STACK)


async def events(desk: Desk, name: str, message_id: str) -> list[WorkEvent]:
    async with desk.work_queues.database.connect() as connection:
        rows = (await connection.execute(select(outbox.c.events).order_by(outbox.c.id))).scalars()
        return [event for row in rows for event in decode(row) if (event.event, event.id) == (name, message_id)]


async def test_a_failed_message_keeps_the_error_and_shows_its_stack_alone(desk: Desk) -> None:
    await desk.queue(backoff_initial_ms=60_000)
    await desk.ids(new())
    (claimed,) = await desk.claim()
    await desk.settle("fail", claimed, error=ERROR)
    shown = await desk.work_queues.search.get(desk.caller, SCOPE, claimed.id)
    assert (shown.failure_reason, shown.error) == ("KeyError: 'email'", ERROR)
    (listed,) = (await desk.work_queues.search.list(desk.caller, SCOPE, MessageFilter())).items
    assert listed.error == Failure(type="KeyError", message="'email'")
    history = (await desk.work_queues.search.history(desk.caller, SCOPE, claimed.id)).items
    assert (history[-1].event, history[-1].detail) == ("failed", "KeyError: 'email'")


async def test_a_dead_letter_and_the_events_name_type_and_message(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new())
    (claimed,) = await desk.claim()
    await desk.settle("fail", claimed, error=ERROR, dead=True)
    (letter,) = (
        await desk.work_queues.dead_letters.list(desk.caller, SCOPE, DeadLetterFilter(reason="KeyError"))
    ).items
    assert (letter.reason, letter.error) == ("KeyError: 'email'", Failure(type="KeyError", message="'email'"))
    assert (await desk.work_queues.search.get(desk.caller, SCOPE, claimed.id)).error == ERROR
    for name in ("failed", "dead_lettered"):
        (told,) = await events(desk, name, claimed.id)
        assert told.extras is not None
        assert (told.extras["reason"], told.extras["error_type"]) == ("KeyError: 'email'", "KeyError")
        assert STACK not in msgspec.json.encode(told).decode()


async def test_a_reason_of_its_own_stands_beside_the_error(desk: Desk) -> None:
    await desk.queue(backoff_initial_ms=60_000)
    await desk.ids(new(1), new(2), new(3))
    both, plain, silent = await desk.claim(3)
    await desk.settle("fail", both, error=ERROR, reason="no address")
    await desk.settle("fail", plain, reason="the bank is closed")
    await desk.settle("fail", silent)
    shown = [await desk.work_queues.search.get(desk.caller, SCOPE, each.id) for each in (both, plain, silent)]
    assert [each.failure_reason for each in shown] == [
        "no address (KeyError: 'email')",
        "the bank is closed",
        "failed",
    ]
    assert [each.error for each in shown] == [ERROR, Failure(message="the bank is closed"), Failure(message="failed")]


async def test_the_last_failure_counts_and_other_verdicts_leave_it(desk: Desk) -> None:
    await desk.queue(backoff_initial_ms=0, backoff_jitter_ms=0)
    await desk.ids(new())
    for message in ("first", "second"):
        (claimed,) = await desk.claim()
        await desk.settle("fail", claimed, error=Failure(message=message))
    (claimed,) = await desk.claim()
    await desk.settle("extend", claimed)
    await desk.settle("release", claimed)
    assert (await desk.work_queues.search.get(desk.caller, SCOPE, claimed.id)).error == Failure(message="second")


async def test_what_is_too_long_or_no_text_for_a_database_is_cut_and_kept(desk: Desk) -> None:
    await desk.queue(backoff_initial_ms=60_000)
    await desk.ids(new())
    (claimed,) = await desk.claim()
    frames = "".join(f'  File "shop.py", line {line}, in deeper\n' for line in range(1000))
    stack = f"Traceback (most recent call last):\n{frames}ValueError: innermost\n"
    await desk.settle("fail", claimed, error=Failure(type="T" * 300, message="a\0ñ" * 2000, stack=stack))
    error = (await desk.work_queues.search.get(desk.caller, SCOPE, claimed.id)).error
    assert error is not None
    assert error.type is not None
    assert error.message is not None
    assert error.stack is not None
    assert (len(error.type), len(error.message)) == (200, 2000)
    assert error.message.startswith("a\N{REPLACEMENT CHARACTER}ñ")
    assert 7_900 < len(error.stack) <= 8_000
    assert error.stack.startswith("Traceback (most recent call last):\n  …\n  File")
    assert error.stack.endswith("line 999, in deeper\nValueError: innermost\n")


async def test_a_replayed_message_begins_without_its_failure(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new())
    (claimed,) = await desk.claim()
    await desk.settle("fail", claimed, error=ERROR, dead=True)
    replay = await desk.work_queues.replays.start(desk.caller, SCOPE)
    await desk.work_queues.replays.advance(desk.caller, replay.id, 10)
    shown = await desk.work_queues.search.get(desk.caller, SCOPE, claimed.id)
    assert (shown.state, shown.failure_reason, shown.error) == ("pending", None, None)


async def test_a_copy_of_a_broadcast_message_in_the_dead_letters_has_the_error(desk: Desk) -> None:
    await desk.queue("news", consumer_mode="broadcast")
    await desk.work_queues.subscriptions.create(desk.caller, SCOPE, "news", "mailer")
    await desk.ids(new(), queue="news")
    (claimed,) = await desk.claim(queue="news", subscription="mailer")
    await desk.settle("fail", claimed, queue="news", error=ERROR, dead=True)
    (letter,) = (await desk.work_queues.dead_letters.list(desk.caller, SCOPE)).items
    assert (letter.reason, letter.subscription) == ("KeyError: 'email'", "mailer")
    assert (await desk.work_queues.search.get(desk.caller, SCOPE, letter.id)).error == ERROR
    (told,) = await events(desk, "dead_lettered", claimed.id)
    assert told.extras is not None
    assert told.extras["error_type"] == "KeyError"

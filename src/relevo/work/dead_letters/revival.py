"""How a dead letter comes to life again: pending in the queue it came from, with its tries reset and its history kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import RowMapping, bindparam, delete, insert, select, update

from relevo.work.broadcast.deliveries import SUBSCRIPTION
from relevo.work.message.history import history_line
from relevo.work.message.ordering import sort_key
from relevo.work.queue_record import QueueRecord
from relevo.work.store.outbox import WorkEvent
from relevo.work.store.tables import deliveries, messages, subscriptions
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.store.unit_of_work import Ready
from relevo.work.streams.stream_jobs import revived


async def revive(
    transaction: SqlUnitOfWork,
    home: QueueRecord,
    origin: QueueRecord,
    letters: Sequence[RowMapping],
    *,
    replay_id: str | None,
    actor: str,
) -> int:
    """Moves dead letters, whose rows are held, from `home` (the scope's `_dead_letter`) back to `origin`; returns how many.

    A ttl that ran out begins anew and a deadline that has passed is dropped, or they would expire within the minute: to replay
    is to want it done after all. A copy that a subscription could not deliver goes to that subscription alone, and stays where
    it is when the subscription is gone.
    """
    opened: dict[str, int] = {}
    if origin.consumer_mode == "broadcast":
        opened = await _with_deliveries(transaction, origin, letters)
        letters = [letter for letter in letters if letter["id"] in opened]
    if not letters:
        return 0
    values: list[dict[str, Any]] = [
        _new_values(origin, letter, transaction.now, actor, replay_id) | {"_open": opened.get(letter["id"])}
        for letter in letters
    ]
    m = messages.c
    await transaction.connection.execute(
        update(messages)
        .where(m.id == bindparam("_id"))
        .values(
            queue_id=origin.id,
            origin_queue_id=None,
            state="pending",
            attempts=0,
            reclaims=0,
            replays=m.replays + 1,
            visible_at=None,
            claim_until=None,
            claim_token=None,
            claimed_by=None,
            claimed_at=None,
            failure_reason=None,
            error=None,
            finished_at=None,
            updated_at=transaction.now,
            sort_key=bindparam("_key"),
            expires_at=bindparam("_expires"),
            deadline_at=bindparam("_deadline"),
            open_deliveries=bindparam("_open"),
            trail=m.trail + bindparam("_line"),
        ),
        values,
    )
    transaction.counters.moved(home.id, "dead", None, len(letters))
    transaction.counters.moved(origin.id, None, "pending", len(letters))
    transaction.counters.add(origin.id, "replayed", len(letters))
    jobs = await revived(transaction, origin, [letter["id"] for letter in letters])
    for letter, new in zip(letters, values, strict=True):
        if origin.consumer_mode == "competing" and letter["id"] not in jobs:
            transaction.ready.append(Ready(origin.id, new["_key"], letter["id"]))
        told: dict[str, int | str] = {"attempt": 0, "reason": letter["failure_reason"] or ""}
        if replay_id is not None:
            told["replay"] = replay_id
        transaction.events.append(
            WorkEvent(
                "replayed",
                origin.id,
                letter["id"],
                transaction.now,
                letter["message_type"],
                letter["correlation_id"],
                told,
            )
        )
    return len(letters)


def _new_values(queue: QueueRecord, letter: RowMapping, now: int, actor: str, replay_id: str | None) -> dict[str, Any]:
    expires, deadline = letter["expires_at"], letter["deadline_at"]
    if expires is not None and expires <= now:
        expires = now + (expires - letter["created_at"])
    if deadline is not None and deadline <= now:
        deadline = None
    place = sort_key(
        queue.ordering,
        created_at=letter["created_at"],
        tier=letter["priority_tier"],
        score=letter["priority_score"],
        deadline_at=deadline,
    )
    line = history_line(now, "replayed", actor, replay_id)
    return {"_id": letter["id"], "_key": place, "_expires": expires, "_deadline": deadline, "_line": line}


async def _with_deliveries(
    transaction: SqlUnitOfWork, queue: QueueRecord, letters: Sequence[RowMapping]
) -> dict[str, int]:
    """Makes the deliveries of letters of a broadcast queue: of a copy the one of its subscription, of a whole message those of
    all subscriptions that have not settled it. Returns how many each letter has; those with none are left out."""
    s, d, connection = subscriptions.c, deliveries.c, transaction.connection
    ids = [letter["id"] for letter in letters]
    numbers = {row.name: row.id for row in await connection.execute(select(s.id, s.name).where(s.queue_id == queue.id))}
    await connection.execute(delete(deliveries).where(d.message_id.in_(ids), d.state.in_(("expired", "cancelled"))))
    there = {
        (row.message_id, row.subscription_id)
        for row in await connection.execute(select(d.message_id, d.subscription_id).where(d.message_id.in_(ids)))
    }
    rows: list[dict[str, Any]] = [
        {
            "subscription_id": number,
            "message_id": letter["id"],
            "state": "pending",
            "sort_key": letter["sort_key"],
            "attempts": 0,
            "reclaims": 0,
            "updated_at": transaction.now,
        }
        for letter in letters
        for name, number in numbers.items()
        if letter["source_type"] != SUBSCRIPTION or letter["source_id"] == name
        if (letter["id"], number) not in there
    ]
    if rows:
        await connection.execute(insert(deliveries), rows)
        transaction.wakes[queue.id] = transaction.wakes.get(queue.id, 0) + len(rows)
    return Counter(row["message_id"] for row in rows)

"""How a dead letter comes to life again: pending in the queue it came from, with its tries reset and its history kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, insert, select

from relevo.work.broadcast.deliveries import SUBSCRIPTION
from relevo.work.caller import Caller
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.ordering import sort_key
from relevo.work.message.transition import REPLAY, REPLAY_AS_JOB, Transition
from relevo.work.queue_record import QueueRecord
from relevo.work.store.interface import LockedMessage
from relevo.work.store.tables import deliveries, subscriptions
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.streams.stream_jobs import send_again


async def revive(
    transaction: SqlUnitOfWork,
    origin: QueueRecord,
    letters: Sequence[Mapping[str, Any]],
    by: Caller,
    replay_id: str | None,
) -> int:
    """Moves dead letters, whose rows are held, back to the queue they came from; returns how many.

    A ttl that ran out begins anew and a deadline that has passed is dropped, or they would expire within the minute: to replay
    is to want it done after all. A copy that a subscription could not deliver goes to that subscription alone, and stays where
    it is when the subscription is gone.
    """
    opened: dict[str, int] = {}
    if origin.consumer_mode == "broadcast":
        opened = await _with_deliveries(transaction, origin, letters)
        letters = [letter for letter in letters if letter["id"] in opened]
    jobs = await send_again(transaction, [letter["id"] for letter in letters])
    changes: dict[Transition, list[Change]] = {REPLAY: [], REPLAY_AS_JOB: []}
    for letter in letters:
        columns = _new_values(origin, letter, transaction.now) | {"open_deliveries": opened.get(letter["id"])}
        told: dict[str, int | str] = {"attempt": 0, "reason": letter["failure_reason"] or ""}
        if replay_id is not None:
            told["replay"] = replay_id
        claim = jobs.get(letter["id"])
        if claim is not None:
            columns |= claim | {"attempts": REPLAY_AS_JOB.attempts}
        change = Change(LockedMessage.of(letter), detail=replay_id, told=told, columns=columns)
        changes[REPLAY if claim is None else REPLAY_AS_JOB].append(change)
    for transition, own in changes.items():
        await apply(transaction, transition, origin, own, by)
    return len(letters)


def _new_values(queue: QueueRecord, letter: Mapping[str, Any], now: int) -> dict[str, Any]:
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
    return {
        "sort_key": place,
        "expires_at": expires,
        "deadline_at": deadline,
        "attempts": 0,
        "reclaims": 0,
        "replays": letter["replays"] + 1,
        "claim_token": None,
        "failure_reason": None,
        "error": None,
    }


async def _with_deliveries(
    transaction: SqlUnitOfWork, queue: QueueRecord, letters: Sequence[Mapping[str, Any]]
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

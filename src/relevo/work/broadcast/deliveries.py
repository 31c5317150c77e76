"""What becomes of a broadcast message in one subscription: claimed, completed, failed, tried again, buried.

A delivery has the claim columns of a message and goes through the same states. The message is terminal when its last delivery
is: completed if any subscription completed it, else failed. A delivery that died leaves a copy of its message in `_dead_letter`
(`parent_id` is the message, `source_id` the subscription); a replay brings that copy back to this one subscription.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Column, ColumnElement, RowMapping, and_, exists, insert, select, update

from relevo.contract.claims import Claimed, Settled
from relevo.contract.messages import Refusal
from relevo.errors import ClaimLost, NotFound
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.message.failure import Failure
from relevo.work.message.history import history_line
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.model import AS_WRITTEN, TIERS
from relevo.work.message.transition import CLAIM_DELIVERY, DELIVER, FINISH, FINISH_FAILED, GIVE_UP, Transition
from relevo.work.message.verdict import LETTERS, SettleItem, Settling, Verdict, settling_of, wrong_in
from relevo.work.queue_record import QueueRecord
from relevo.work.store.interface import LockedDelivery
from relevo.work.store.tables import deliveries, labels, live, messages, subscriptions
from relevo.work.store.transactions import SqlUnitOfWork, Transactions

SUBSCRIPTION = "subscription"
"""The `source_type` of a copy in `_dead_letter`."""


class Deliveries:
    """The deliveries of an installation's broadcast queues."""

    def __init__(self, transactions: Transactions, mint: IdMint) -> None:
        self._transactions = transactions
        self._mint = mint

    async def claim(
        self,
        caller: Caller,
        queue: QueueRecord,
        subscription: str,
        *,
        batch_size: int,
        consumer: str | None = None,
        wanted: Mapping[str, str] | None = None,
    ) -> list[Claimed]:
        """Up to `batch_size` messages for this subscription, in the queue's order, all with one token. Does not wait."""
        token = secrets.token_hex(13)

        async def take(transaction: SqlUnitOfWork) -> list[Claimed]:
            number = await _number_of(transaction, queue, subscription)
            wanting: list[LockedDelivery] = []
            of: dict[str, RowMapping] = {}
            while not wanting:  # deliveries of messages that ended without them are closed on the way
                taken, of = await _first_pending(transaction, number, batch_size, wanted or {})
                if not taken:
                    return []
                wanting = [each for each in taken if of[each.id]["state"] in FINISH.before]
                await _drop(transaction, number, [each.id for each in taken if each not in wanting])
            now = transaction.now
            until = now + queue.visibility_timeout_s * 1000
            claim = {
                "claim_token": token,
                "claim_until": until,
                "claimed_by": consumer or caller.actor,
                "claimed_at": now,
            }
            changes = [
                Change(
                    each, told={"attempt": each.attempts + 1, "wait_ms": max(0, now - each.updated_at)}, columns=claim
                )
                for each in wanting
            ]
            await apply(transaction, CLAIM_DELIVERY, queue, changes, caller)
            return [_claimed(of[each.id], queue, token, until, each) for each in wanting]

        return await self._transactions.run(take)

    async def settle(
        self, caller: Caller, queue: QueueRecord, verdict: Verdict, items: Sequence[SettleItem]
    ) -> list[Settled]:
        """Settles deliveries; the token says of which subscription. One outcome for each item, in their order."""

        async def decide(transaction: SqlUnitOfWork) -> list[Settled]:
            held = await _held(transaction, items)
            known = await _messages(transaction, [item.id for item in items])
            decided: dict[Transition, list[Change]] = {}
            answers: dict[tuple[str, str], Settled] = {}
            settled: list[Settled] = []
            for item in items:
                delivery, message = held.get((item.id, item.claim_token[1:])), known.get(item.id)
                if (wrong := wrong_in(item)) is not None:
                    settled.append(Settled(item.id, refusal=Refusal(wrong.code, str(wrong))))
                elif message is None or message["queue_id"] != queue.id:
                    missing = NotFound(what="message", name=item.id)
                    settled.append(Settled(item.id, refusal=Refusal(missing.code, str(missing))))
                elif delivery is None or (delivery.state != "claimed" and not _was_settled_by(verdict, delivery)):
                    settled.append(_lost(item, "another token holds it"))
                elif item.subscription not in (None, delivery.subscription):
                    settled.append(_lost(item, f"subscription {item.subscription} has not claimed it"))
                elif (item.id, item.claim_token) in answers:
                    settled.append(answers[item.id, item.claim_token])  # named twice in one call
                elif delivery.state == "claimed":
                    transition, change, answer = _settling(verdict, delivery, item, queue, transaction.now)
                    decided.setdefault(transition, []).append(change)
                    answers[item.id, item.claim_token] = answer
                    settled.append(answer)
                else:
                    settled.append(Settled(item.id, delivery.state, visible_at=delivery.visible_at))  # pyright: ignore[reportArgumentType]
            for transition, changes in decided.items():
                await change_deliveries(transaction, self._mint, transition, queue, changes, known, caller)
            return settled

        return await self._transactions.run(decide)


def _lost(item: SettleItem, reason: str) -> Settled:
    lost = ClaimLost(message_id=item.id, reason=reason)
    return Settled(item.id, refusal=Refusal(lost.code, str(lost)))


def _was_settled_by(verdict: Verdict, delivery: LockedDelivery) -> bool:
    """Whether this verdict was heard before with the same token: its answer may have been lost."""
    if verdict == "complete":
        return delivery.state == "completed"
    return verdict in LETTERS and (delivery.claim_token or "").startswith(LETTERS[verdict])


def _settling(verdict: Verdict, row: LockedDelivery, item: SettleItem, queue: QueueRecord, now: int) -> Settling:
    if verdict != "complete":
        return settling_of(verdict, row, item, queue, now)
    change = Change(row, columns={"result": bytes(item.result).decode() or None})
    return Settling(DELIVER, change, Settled(row.id, "completed"))


# --- the ends of a delivery, and of its message --------------------------------------------------------------------------


async def change_deliveries(
    transaction: SqlUnitOfWork,
    mint: IdMint,
    transition: Transition,
    queue: QueueRecord,
    changes: Sequence[Change],
    of: Mapping[str, RowMapping],
    caller: Caller,
) -> None:
    """Changes deliveries of one queue. Those that die leave a copy of their message in `_dead_letter`; what has ended in all
    subscriptions is over."""
    if transition.after == "dead":
        changes = [await _bury(transaction, mint, queue, each, of[each.row.id], caller) for each in changes]
    await apply(transaction, transition, queue, changes, caller)
    if transition.after in ("dead", "completed"):
        await close_messages(transaction, queue, [each.row.id for each in changes], caller)


async def _bury(
    transaction: SqlUnitOfWork, mint: IdMint, queue: QueueRecord, change: Change, message: RowMapping, caller: Caller
) -> Change:
    """Leaves the copy, and has the events name it."""
    now, delivery, reason = transaction.now, change.row, change.reason or ""
    assert isinstance(delivery, LockedDelivery)
    copy_id = mint()
    row: dict[str, Any] = {column.name: message[column.name] for column in messages.columns} | {
        "id": copy_id,
        "parent_id": message["id"],
        "causation_id": message["id"],
        "queue_id": queue.dead_letter_id,
        "origin_queue_id": queue.id,
        "source_type": SUBSCRIPTION,
        "source_id": delivery.subscription,
        "standing": "dead",
        "visible_at": None,
        "claim_no": 0,
        "claim_until": None,
        "claim_token": None,
        "claimed_by": None,
        "claimed_at": None,
        "attempts": delivery.attempts,
        "reclaims": delivery.reclaims,
        "idempotency_key": None,
        "open_deliveries": None,
        "failure_reason": reason,
        "error": (change.failure or Failure(message=reason)).encoded(),
        "result": None,
        "created_at": now,
        "updated_at": now,
        "finished_at": now,
        "published_by": None,
        "trail": history_line(now, GIVE_UP.history, caller.actor, reason),
    }
    await transaction.connection.execute(insert(messages).values(row))
    named: dict[str, str] = msgspec.json.decode(message["labels"])
    if named:
        label_rows = [
            {"scope_id": queue.scope_id, "name": name, "value": value, "message_id": copy_id}
            for name, value in named.items()
        ]
        await transaction.connection.execute(insert(labels), label_rows)
    transaction.note_due(copy_id, {"standing": "dead", "finished_at": now})
    transaction.counters.moved(queue.dead_letter_id, None, "dead")
    return change._replace(told={**change.told, "dead_letter": copy_id})


async def close_messages(
    transaction: SqlUnitOfWork, queue: QueueRecord, message_ids: Sequence[str], caller: Caller
) -> None:
    """Notes that each of these messages (as often as it is named) has one open delivery less, and ends those that have none."""
    if not message_ids:
        return
    connection, m, counted = transaction.connection, messages.c, Counter(message_ids)
    # In one order everywhere: two subscriptions that settle the same messages must not deadlock.
    rows = await transaction.lock_messages(m.id.in_(counted))
    for times in set(counted.values()):
        these = [each for each in counted if counted[each] == times]
        await connection.execute(
            update(messages).where(m.id.in_(these)).values(open_deliveries=m.open_deliveries - times)
        )
    last = set((await connection.execute(select(m.id).where(m.id.in_(counted), m.open_deliveries <= 0))).scalars())
    ended = {row.id for row in rows if row.state in FINISH.before} & last
    if not ended:
        return
    done = select(deliveries.c.message_id).where(deliveries.c.message_id.in_(ended), deliveries.c.state == "completed")
    completed = set((await connection.execute(done)).scalars())
    results = await _results(transaction, completed)
    changes: dict[Transition, list[Change]] = {FINISH: [], FINISH_FAILED: []}
    for row in rows:
        if row.id in ended:
            columns = {"open_deliveries": 0} | results.get(row.id, {})
            changes[FINISH if row.id in completed else FINISH_FAILED].append(Change(row, columns=columns))
    for transition, own in changes.items():
        await apply(transaction, transition, queue, own, caller)


async def _results(transaction: SqlUnitOfWork, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """The results of a message's subscriptions become its own, by name: deliveries go when it is archived."""
    d, s = deliveries.c, subscriptions.c
    query = (
        select(d.message_id, s.name, d.result)
        .join_from(deliveries, subscriptions, s.id == d.subscription_id)
        .where(d.message_id.in_(ids), d.result.is_not(None))
        .order_by(d.message_id, s.name)
    )
    results: dict[str, dict[str, msgspec.Raw]] = {}
    for row in await transaction.connection.execute(query) if ids else ():
        results.setdefault(row.message_id, {})[row.name] = msgspec.Raw(row.result.encode())
    return {message_id: {"result": msgspec.json.encode(named).decode()} for message_id, named in results.items()}


# --- rows ----------------------------------------------------------------------------------------------------------------


async def _number_of(transaction: SqlUnitOfWork, queue: QueueRecord, name: str) -> int:
    mine = select(subscriptions.c.id).where(subscriptions.c.queue_id == queue.id, subscriptions.c.name == name)
    number = (await transaction.connection.execute(mine)).scalar_one_or_none()
    if number is None:
        raise NotFound(what="subscription", name=name)
    return number


async def lock_deliveries(
    transaction: SqlUnitOfWork, *conditions: ColumnElement[bool], by: Sequence[Column[Any]], limit: int | None = None
) -> tuple[list[LockedDelivery], dict[str, RowMapping]]:
    """Deliveries that meet these conditions, locked as messages are by `lock_messages`, and their messages, which are not."""
    query = select(deliveries).where(*conditions).order_by(*by).limit(limit)
    rows = (await transaction.connection.execute(transaction.held(query, wait=limit is None))).mappings().all()
    of = await _messages(transaction, [row["message_id"] for row in rows])
    numbers = {row["subscription_id"] for row in rows}
    named = select(subscriptions.c.id, subscriptions.c.name).where(subscriptions.c.id.in_(numbers))
    names = {row.id: row.name for row in await transaction.connection.execute(named)} if rows else {}
    return [_locked(row, of[row["message_id"]], names.get(row["subscription_id"], "")) for row in rows], of


def _locked(row: RowMapping, message: RowMapping, subscription: str) -> LockedDelivery:
    own = {name: row[name] for name in LockedDelivery._fields if name in row}
    shared = {name: message[name] for name in LockedDelivery._fields if name in message and name not in row}
    return LockedDelivery(subscription=subscription, **own, **shared)


async def _first_pending(
    transaction: SqlUnitOfWork, number: int, limit: int, wanted: Mapping[str, str]
) -> tuple[list[LockedDelivery], dict[str, RowMapping]]:
    d, m = deliveries.c, messages.c
    outlived = exists().where(m.id == d.message_id, m.expires_at <= transaction.now)  # the enforcer ends these
    carried = [
        exists().where(labels.c.message_id == d.message_id, labels.c.name == name, labels.c.value == value)
        for name, value in wanted.items()
    ]
    mine = (d.subscription_id == number, d.state == "pending", ~outlived, *carried)
    return await lock_deliveries(transaction, *mine, by=(d.sort_key, d.message_id), limit=limit)


async def _held(transaction: SqlUnitOfWork, items: Sequence[SettleItem]) -> dict[tuple[str, str], LockedDelivery]:
    """The deliveries with these tokens, held, by message and token; without its first letter, which tells of its verdict."""
    d = deliveries.c
    tokens = {first + item.claim_token[1:] for item in items for first in (item.claim_token[:1], *LETTERS.values())}
    mine = (d.message_id.in_({item.id for item in items}), d.claim_token.in_(tokens))
    found, _ = await lock_deliveries(transaction, *mine, by=(d.message_id, d.subscription_id))
    return {(row.id, (row.claim_token or "")[1:]): row for row in found}


async def _messages(transaction: SqlUnitOfWork, ids: Sequence[str]) -> dict[str, RowMapping]:
    if not ids:
        return {}
    rows = await transaction.connection.execute(select(live).where(live.c.id.in_(set(ids))))
    return {row["id"]: row for row in rows.mappings()}


async def _drop(transaction: SqlUnitOfWork, number: int, ids: Sequence[str]) -> None:
    """Closes deliveries of messages that have ended without them (cancelled, expired)."""
    if ids:
        mine = and_(deliveries.c.subscription_id == number, deliveries.c.message_id.in_(ids))
        await transaction.connection.execute(
            update(deliveries).where(mine).values(state="cancelled", updated_at=transaction.now)
        )


def _claimed(row: RowMapping, queue: QueueRecord, token: str, until: int, delivery: LockedDelivery) -> Claimed:
    tier: int = row["priority_tier"]
    return Claimed(
        id=row["id"],
        queue=queue.slug,
        claim_token=token,
        claim_until=until,
        attempts=delivery.attempts + 1,
        reclaims=delivery.reclaims,
        message_type=row["message_type"],
        priority_tier=TIERS[tier],
        priority_score=row["priority_score"],
        labels=AS_WRITTEN(row["labels"].encode()),
        content_type=row["content_type"],
        body=msgspec.Raw((row["body"] or "null").encode()),
        correlation_id=row["correlation_id"],
        causation_id=row["causation_id"],
        parent_id=row["parent_id"],
        deadline=row["deadline_at"],
        created_at=row["created_at"],
    )

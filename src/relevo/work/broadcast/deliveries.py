"""What becomes of a broadcast message in one subscription: claimed, completed, failed, tried again, buried.

A delivery has the claim columns of a message and goes through the same states. The message is terminal when its last delivery
is: completed if any subscription completed it, else failed. A delivery that died leaves a copy of its message in `_dead_letter`
(`parent_id` is the message, `source_id` the subscription); a replay brings that copy back to this one subscription.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Row, RowMapping, and_, exists, insert, select, update

from relevo.contract.claims import Claimed, Settled
from relevo.contract.events import EventName
from relevo.contract.messages import Refusal
from relevo.errors import ClaimLost, NotFound
from relevo.wire.ids import IdMint
from relevo.wire.retry import RetryDefaults
from relevo.work.caller import Caller
from relevo.work.message.failure import Failure
from relevo.work.message.history import history_line
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.model import AS_WRITTEN, TIERS
from relevo.work.message.transition import FINISH, FINISH_FAILED, Transition
from relevo.work.message.verdict import LETTERS, SettleItem, Verdict, wrong_in
from relevo.work.queue_record import QueueRecord
from relevo.work.store.outbox import WorkEvent
from relevo.work.store.tables import deliveries, labels, messages, subscriptions
from relevo.work.store.transactions import SqlUnitOfWork, Transactions

SUBSCRIPTION = "subscription"
"""The `source_type` of a copy in `_dead_letter`."""

_DONE_BY: Mapping[Verdict, frozenset[str]] = {
    "complete": frozenset({"completed"}),
    "fail": frozenset(),
    "release": frozenset({"pending"}),
    "extend": frozenset(),
}
"""States in which a token that is still there tells that its verdict was heard before; of `fail` its letter tells."""


@dataclass
class Held:
    """A delivery that this transaction holds."""

    subscription_id: int
    subscription: str
    message_id: str
    state: Any
    claim_token: str | None
    claimed_at: int | None
    attempts: int
    reclaims: int
    visible_at: int | None = None
    claim_until: int | None = None

    def was_settled_by(self, verdict: Verdict) -> bool:
        """Whether this verdict was heard before with the same token: its answer may have been lost."""
        if (self.claim_token or "").startswith(LETTERS["fail"]):
            return verdict == "fail"
        return self.state in _DONE_BY[verdict]

    async def change(self, transaction: SqlUnitOfWork, **values: Any) -> None:
        """Writes new values, and knows them itself."""
        mine = and_(deliveries.c.subscription_id == self.subscription_id, deliveries.c.message_id == self.message_id)
        await transaction.connection.execute(
            update(deliveries).where(mine).values({**values, "updated_at": transaction.now})
        )
        for name in ("state", "attempts", "reclaims", "visible_at", "claim_until"):
            if name in values:
                setattr(self, name, values[name])

    async def let_go(self, transaction: SqlUnitOfWork, state: str, **values: Any) -> None:
        """Ends the claim. The token stays: by it the same settle, sent once more, is known."""
        unheld = {"claim_until": None, "claimed_by": None, "claimed_at": None}
        await self.change(transaction, state=state, **unheld, **values)


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
            rows: dict[str, RowMapping] = {}
            live: list[Row[*tuple[Any, ...]]] = []
            while not live:  # deliveries of messages that ended without them are closed on the way
                taken = await _first_pending(transaction, number, batch_size, wanted or {})
                if not taken:
                    return []
                rows = await _messages(transaction, [each.message_id for each in taken])
                live = [each for each in taken if _is_open(rows.get(each.message_id))]
                await _drop(transaction, number, [each.message_id for each in taken if each not in live])
            now, ids = transaction.now, [each.message_id for each in live]
            until = now + queue.visibility_timeout_s * 1000
            await transaction.connection.execute(
                update(deliveries)
                .where(deliveries.c.subscription_id == number, deliveries.c.message_id.in_(ids))
                .values(
                    state="claimed",
                    claim_token=token,
                    claim_until=until,
                    claimed_by=consumer or caller.actor,
                    claimed_at=now,
                    attempts=deliveries.c.attempts + 1,
                    updated_at=now,
                )
            )
            transaction.counters.add(queue.id, "claims", len(live))
            for each in live:
                transaction.events.append(
                    event_of(
                        "claimed",
                        queue,
                        rows[each.message_id],
                        now,
                        subscription=subscription,
                        attempt=each.attempts + 1,
                        wait_ms=max(0, now - each.updated_at),
                    )
                )
            _note(transaction, caller, "claim", queue, ids)
            return [_claimed(rows[each.message_id], queue, token, until, each) for each in live]

        return await self._transactions.run(take)

    async def settle(
        self, caller: Caller, queue: QueueRecord, verdict: Verdict, items: Sequence[SettleItem]
    ) -> list[Settled]:
        """Settles deliveries; the token says of which subscription. One outcome for each item, in their order."""

        async def decide(transaction: SqlUnitOfWork) -> list[Settled]:
            held = await _held(transaction, items)
            known = await _messages(transaction, [item.id for item in items])
            settled: list[Settled] = []
            finished: list[Held] = []
            for item in items:
                delivery, message = held.get((item.id, item.claim_token[1:])), known.get(item.id)
                if (wrong := wrong_in(item)) is not None:
                    refusal = Refusal(wrong.code, str(wrong))
                elif message is None or message["queue_id"] != queue.id:
                    refusal = Refusal("NOT_FOUND", str(NotFound(what="message", name=item.id)))
                elif delivery is None or (delivery.state != "claimed" and not delivery.was_settled_by(verdict)):
                    refusal = Refusal("CLAIM_LOST", str(ClaimLost(message_id=item.id, reason="another token holds it")))
                elif item.subscription not in (None, delivery.subscription):
                    lost = ClaimLost(message_id=item.id, reason=f"subscription {item.subscription} has not claimed it")
                    refusal = Refusal(lost.code, str(lost))
                else:
                    if delivery.state == "claimed":
                        ended = await self._settle_one(transaction, queue, verdict, item, delivery, message, caller)
                        finished += [delivery] if ended else []
                    outcome = Settled(
                        item.id, delivery.state, visible_at=delivery.visible_at, claim_until=delivery.claim_until
                    )
                    settled.append(outcome)
                    continue
                settled.append(Settled(item.id, refusal=refusal))
            failed = {(item.id, item.claim_token): item for item in items}
            dead = [each for each in finished if each.state == "dead"]
            for each in dead:
                item = failed[each.message_id, each.claim_token or ""]
                why = (item.told, item.failure)
                await bury(transaction, self._mint, queue, each, known[each.message_id], *why, caller)
            await close_messages(transaction, queue, [each.message_id for each in finished], caller)
            if changed := [each.id for each in settled if each.refusal is None]:
                _note(transaction, caller, verdict, queue, changed)
            return settled

        return await self._transactions.run(decide)

    async def _settle_one(
        self,
        transaction: SqlUnitOfWork,
        queue: QueueRecord,
        verdict: Verdict,
        item: SettleItem,
        delivery: Held,
        message: RowMapping,
        caller: Caller,
    ) -> bool:
        """Whether the delivery has ended."""
        now, attempt = transaction.now, delivery.attempts
        took_ms = max(0, now - (delivery.claimed_at or now))
        told: dict[str, int | str] = {"subscription": delivery.subscription, "attempt": attempt}
        if verdict == "extend":
            seconds = queue.visibility_timeout_s if item.seconds is None else item.seconds
            await delivery.change(transaction, claim_until=now + int(seconds * 1000))
            await _add_history(transaction, message["id"], "extended", caller, delivery.subscription)
            transaction.events.append(event_of("extended", queue, message, now, **told))
            return False
        if verdict == "release":
            await delivery.let_go(transaction, "pending", attempts=max(0, attempt - 1))
            transaction.counters.add(queue.id, "released", 1)
            transaction.wakes[queue.id] = transaction.wakes.get(queue.id, 0) + 1
            transaction.events.append(event_of("released", queue, message, now, **told))
            return False
        transaction.counters.add(queue.id, "handler_ms", took_ms)
        told["duration_us"] = took_ms * 1000
        if verdict == "complete":
            result = bytes(item.result).decode() or None
            await delivery.let_go(transaction, "completed", result=result)
            transaction.events.append(event_of("completed", queue, message, now, **told))
            return True
        reason, token = item.told, LETTERS["fail"] + item.claim_token[1:]
        told |= item.failure.extras(reason)
        transaction.counters.add(queue.id, "failed", 1)
        transaction.events.append(event_of("failed", queue, message, now, **told))
        tries = attempt - delivery.reclaims
        if item.dead or tries >= queue.max_retries:
            await delivery.let_go(transaction, "dead", claim_token=token, failure_reason=reason)
            return True
        backoff = RetryDefaults(
            queue.backoff_initial_ms, queue.backoff_cap_ms, queue.backoff_multiplier, queue.backoff_jitter_ms
        )
        wait_ms = backoff.wait_ms(tries)
        if wait_ms > 0:
            await delivery.let_go(
                transaction, "delayed", claim_token=token, visible_at=now + wait_ms, failure_reason=reason
            )
        else:
            await delivery.let_go(transaction, "pending", claim_token=token, visible_at=None, failure_reason=reason)
            transaction.wakes[queue.id] = transaction.wakes.get(queue.id, 0) + 1
        transaction.counters.add(queue.id, "retried", 1)
        retried = event_of("retried", queue, message, now, **told, backoff_ms=wait_ms)
        transaction.events.append(retried)
        return False


# --- the ends of a delivery, and of its message --------------------------------------------------------------------------


async def bury(
    transaction: SqlUnitOfWork,
    mint: IdMint,
    queue: QueueRecord,
    delivery: Held,
    message: RowMapping,
    reason: str,
    failure: Failure,
    caller: Caller,
) -> None:
    """Leaves a copy of the message in the scope's `_dead_letter`, for a delivery that has run out of tries."""
    now = transaction.now
    copy_id = mint()
    row: dict[str, Any] = dict(message) | {
        "id": copy_id,
        "parent_id": message["id"],
        "causation_id": message["id"],
        "queue_id": queue.dead_letter_id,
        "origin_queue_id": queue.id,
        "source_type": SUBSCRIPTION,
        "source_id": delivery.subscription,
        "state": "dead",
        "visible_at": None,
        "claim_until": None,
        "claim_token": None,
        "claimed_by": None,
        "claimed_at": None,
        "attempts": delivery.attempts,
        "reclaims": delivery.reclaims,
        "idempotency_key": None,
        "open_deliveries": None,
        "failure_reason": reason,
        "error": failure.encoded(),
        "result": None,
        "created_at": now,
        "updated_at": now,
        "finished_at": now,
        "trail": history_line(now, "dead_lettered", caller.actor, reason),
    }
    await transaction.connection.execute(insert(messages).values(row))
    named: dict[str, str] = msgspec.json.decode(message["labels"])
    if named:
        label_rows = [
            {"scope_id": queue.scope_id, "name": name, "value": value, "message_id": copy_id}
            for name, value in named.items()
        ]
        await transaction.connection.execute(insert(labels), label_rows)
    transaction.counters.moved(queue.dead_letter_id, None, "dead")
    transaction.counters.add(queue.id, "dead_lettered", 1)
    transaction.events.append(
        event_of(
            "dead_lettered",
            queue,
            message,
            now,
            subscription=delivery.subscription,
            attempt=delivery.attempts,
            dead_letter=copy_id,
            **failure.extras(reason),
        )
    )


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
    last = select(m.id).where(m.id.in_(counted), m.open_deliveries <= 0, m.state.in_(FINISH.before))
    ended = set((await connection.execute(last)).scalars())
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


async def _add_history(
    transaction: SqlUnitOfWork, message_id: str, event: str, caller: Caller, subscription: str
) -> None:
    line = history_line(transaction.now, event, caller.actor, f"subscription {subscription}")
    mine = update(messages).where(messages.c.id == message_id)
    await transaction.connection.execute(mine.values(trail=messages.c.trail + line))


# --- rows ----------------------------------------------------------------------------------------------------------------


async def _number_of(transaction: SqlUnitOfWork, queue: QueueRecord, name: str) -> int:
    mine = select(subscriptions.c.id).where(subscriptions.c.queue_id == queue.id, subscriptions.c.name == name)
    number = (await transaction.connection.execute(mine)).scalar_one_or_none()
    if number is None:
        raise NotFound(what="subscription", name=name)
    return number


async def _first_pending(
    transaction: SqlUnitOfWork, number: int, limit: int, wanted: Mapping[str, str]
) -> Sequence[Row[*tuple[Any, ...]]]:
    d = deliveries.c
    m = messages.c
    outlived = exists().where(m.id == d.message_id, m.expires_at <= transaction.now)  # the enforcer ends these
    query = select(d.message_id, d.attempts, d.reclaims, d.updated_at).where(
        d.subscription_id == number, d.state == "pending", ~outlived
    )
    for name, value in wanted.items():
        carried = and_(labels.c.message_id == d.message_id, labels.c.name == name, labels.c.value == value)
        query = query.where(exists().where(carried))
    ordered = query.order_by(d.sort_key, d.message_id).limit(limit)
    return (await transaction.connection.execute(transaction.held(ordered))).all()


async def _held(transaction: SqlUnitOfWork, items: Sequence[SettleItem]) -> dict[tuple[str, str], Held]:
    """The deliveries with these tokens, held, by message and token; without its first letter, which tells of a failure."""
    d = deliveries.c
    tokens = {letter + item.claim_token[1:] for item in items for letter in (item.claim_token[:1], LETTERS["fail"])}
    query = (
        select(
            *(d.subscription_id, d.message_id, d.state, d.claim_token, d.claimed_at, d.attempts, d.reclaims),
            *(d.visible_at, d.claim_until),
        )
        .where(d.message_id.in_({item.id for item in items}), d.claim_token.in_(tokens))
        .order_by(d.message_id, d.subscription_id)
    )
    rows = (await transaction.connection.execute(transaction.held(query, wait=True))).mappings().all()
    names = await subscription_names(transaction, {row["subscription_id"] for row in rows})
    return {
        (row["message_id"], row["claim_token"][1:]): Held(subscription=names.get(row["subscription_id"], ""), **row)
        for row in rows
    }


async def subscription_names(transaction: SqlUnitOfWork, numbers: set[int]) -> dict[int, str]:
    query = select(subscriptions.c.id, subscriptions.c.name).where(subscriptions.c.id.in_(numbers))
    return {row.id: row.name for row in await transaction.connection.execute(query)}


async def _messages(transaction: SqlUnitOfWork, ids: Sequence[str]) -> dict[str, RowMapping]:
    if not ids:
        return {}
    rows = await transaction.connection.execute(select(messages).where(messages.c.id.in_(set(ids))))
    return {row["id"]: row for row in rows.mappings()}


async def _drop(transaction: SqlUnitOfWork, number: int, ids: Sequence[str]) -> None:
    """Closes deliveries of messages that have ended without them (cancelled, expired)."""
    if ids:
        mine = and_(deliveries.c.subscription_id == number, deliveries.c.message_id.in_(ids))
        await transaction.connection.execute(
            update(deliveries).where(mine).values(state="cancelled", updated_at=transaction.now)
        )


def _is_open(message: RowMapping | None) -> bool:
    return message is not None and message["state"] in FINISH.before


def _claimed(row: RowMapping, queue: QueueRecord, token: str, until: int, delivery: Row[*tuple[Any, ...]]) -> Claimed:
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


def event_of(event: EventName, queue: QueueRecord, row: RowMapping, now: int, **extras: int | str) -> WorkEvent:
    return WorkEvent(event, queue.id, row["id"], now, row["message_type"], row["correlation_id"], extras)


def _note(transaction: SqlUnitOfWork, caller: Caller, verb: str, queue: QueueRecord, ids: Sequence[str]) -> None:
    transaction.audit(
        caller,
        f"message.{verb}",
        ids[0],
        tenant_id=queue.tenant_id,
        scope_id=queue.scope_id,
        queue_id=queue.id,
        after=msgspec.json.encode({"ids": ids}).decode(),
    )

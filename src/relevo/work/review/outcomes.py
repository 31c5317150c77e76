"""What becomes of a review's message when it is over, in the transaction that ends it.

A message that asked for a decision is completed with it as its result. A dead letter that is approved goes back to the queue
it came from, with the body as it was corrected; one that is rejected is cancelled; one that nobody decided on is a dead letter
again. A dead letter of a stream queue is no row of ours: what is to be done with it is noted in the review's row, and the agent
`stream_bridge` does it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from sqlalchemy import select, update

from relevo.errors import InvalidInput, NotFound, ReplayLoop
from relevo.work.caller import Caller
from relevo.work.dead_letters.revival import revive
from relevo.work.message.failure import Failure
from relevo.work.message.history import history_line
from relevo.work.review.case import Case
from relevo.work.schemas.registry import Schemas
from relevo.work.store.outbox import WorkEvent
from relevo.work.store.tables import messages, reviews
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.tenancy.queues import Queues

APPROVE = "approve"
MAX_REPLAYS = 3
"""Times that a dead letter is sent back by review; one that dies again after that needs another remedy."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a dead letter goes back to."""

    queue_id: int | None = None
    """Of a work queue."""
    stream_queue: str | None = None
    entry_id: str | None = None
    """Of a stream queue: the entry of its dead letters."""
    job_id: str | None = None
    replays: int = 0
    max_replays: int = MAX_REPLAYS


async def follow(
    queues: Queues, schemas: Schemas, transaction: SqlUnitOfWork, row: Any, case: Case, caller: Caller
) -> None:
    """Does what the end of `case` asks for. `row` is its review's row as it was read."""
    decision = "" if case.outcome is None else str(case.outcome[case.spec.decision.field])
    if row["source"] == "stream_dead_letter":
        # The clock finds it at once, and hands it to the bridge, which knows stream queues.
        await transaction.connection.execute(
            update(reviews).where(reviews.c.id == row["id"]).values(next_tick_at=transaction.now)
        )
        return
    query = select(messages).where(messages.c.id == row["message_id"], messages.c.state == "in_review")
    message = (await transaction.connection.execute(transaction.held(query, wait=True))).mappings().one_or_none()
    if message is None:
        return  # cancelled or erased meanwhile: there is nobody left to tell
    transaction.events.append(
        WorkEvent(
            "review_decided",
            row["queue_id"],
            message["id"],
            transaction.now,
            message["message_type"],
            message["correlation_id"],
            {"review": row["id"], "decision": decision, "reason": case.reason or ""},
        )
    )
    if row["source"] == "dead_letter":
        await _follow_dead_letter(queues, schemas, transaction, case, message, caller)
    elif case.state == "decided":
        await _end(transaction, message, "completed", case, caller, detail=decision)
    else:
        await _end(transaction, message, "failed" if case.state == "failed" else "cancelled", case, caller)


async def _end(
    transaction: SqlUnitOfWork, message: Any, state: str, case: Case, caller: Caller, *, detail: str | None = None
) -> None:
    now, m = transaction.now, messages.c
    values: dict[str, Any] = {
        "state": state,
        "finished_at": now,
        "updated_at": now,
        "trail": m.trail + history_line(now, f"review_{case.state}", caller.actor, detail or case.reason),
    }
    if case.outcome is not None:
        result = dict(case.outcome)
        if case.corrected_body is not None:
            result["corrected_body"] = case.corrected_body
        values["result"] = msgspec.json.encode(result).decode()
    if state == "failed":
        values["failure_reason"] = f"review: {case.reason}"
        values["error"] = Failure(message=f"review: {case.reason}").encoded()
    await transaction.connection.execute(update(messages).where(m.id == message["id"]).values(values))
    transaction.counters.moved(message["queue_id"], "in_review", None)
    transaction.counters.add(message["queue_id"], state, 1)
    transaction.counters.add(message["queue_id"], "reviews", 1)
    if state == "completed":
        event = WorkEvent(
            "completed",
            message["queue_id"],
            message["id"],
            now,
            message["message_type"],
            message["correlation_id"],
            {"attempt": message["attempts"]},
        )
    elif state == "failed":
        event = WorkEvent(
            "failed",
            message["queue_id"],
            message["id"],
            now,
            message["message_type"],
            message["correlation_id"],
            {"attempt": message["attempts"], "reason": f"review: {case.reason}"},
        )
    else:
        event = WorkEvent(
            "cancelled", message["queue_id"], message["id"], now, message["message_type"], message["correlation_id"]
        )
    transaction.events.append(event)


async def _follow_dead_letter(
    queues: Queues, schemas: Schemas, transaction: SqlUnitOfWork, case: Case, message: Any, caller: Caller
) -> None:
    now, m = transaction.now, messages.c
    if case.state == "decided" and (case.outcome or {}).get(case.spec.decision.field) != APPROVE:
        await _end(transaction, message, "cancelled", case, caller, detail="rejected")
        return
    back: dict[str, Any] = {"state": "dead", "updated_at": now}
    if case.state == "decided" and case.corrected_body is not None:
        body = msgspec.json.encode(case.corrected_body)
        bound = await schemas.checker_of(message["origin_queue_id"] or 0)
        if bound is not None:  # what could not be published does not get in by a correction either
            bound[2].check(body, bound[0], bound[1])
        back |= {"body": body.decode(), "body_digest": hashlib.sha256(body).hexdigest()}
        line = history_line(now, "corrected", case.votes[-1].person)
        back["trail"] = m.trail + line
    await transaction.connection.execute(update(messages).where(m.id == message["id"]).values(back))
    transaction.counters.moved(message["queue_id"], "in_review", "dead")
    transaction.counters.add(message["queue_id"], "reviews", 1)
    if case.state != "decided":
        return  # nobody decided: it stays a dead letter
    held = (await transaction.connection.execute(select(messages).where(m.id == message["id"]))).mappings().one()
    origin_id = message["origin_queue_id"]
    try:
        origin = await queues.by_id(origin_id or 0)
    except NotFound:
        raise InvalidInput(
            where="decision", reason="the queue it came from is gone: reject it, or make the queue"
        ) from None
    home = await queues.by_id(message["queue_id"])
    await revive(transaction, home, origin, [held], replay_id=None, actor=caller.actor)


def require_replays_left(message_id: str, replays: int, limit: int = MAX_REPLAYS) -> None:
    """The loop guard: asked before a dead letter is sent to review."""
    if replays >= limit:
        raise ReplayLoop(message_id=message_id, replays=replays)

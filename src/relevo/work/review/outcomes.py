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
from sqlalchemy import update

from relevo.errors import ReplayLoop
from relevo.work.caller import Caller
from relevo.work.dead_letters.revival import revive
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import CORRECT, DECIDE, FAIL_REVIEW, LEAVE_DEAD, REJECT, WITHDRAW
from relevo.work.queue_record import QueueRecord
from relevo.work.review.case import Case
from relevo.work.schemas.registry import Schemas
from relevo.work.store.interface import LockedMessage
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
    mine = (messages.c.id == row["message_id"], messages.c.standing == "in_review")
    message = next(iter(await transaction.lock_rows(*mine)), None)
    if message is None:
        return  # cancelled or erased meanwhile: there is nobody left to tell
    row_as_read = LockedMessage.of(message)
    home = await queues.home_of(row_as_read)
    told: dict[str, int | str] = {"review": row["id"], "decision": decision, "reason": case.reason or ""}
    change = Change(row_as_read, detail=decision or case.reason, told=told, columns=_result(case))
    if row["source"] == "dead_letter":
        await _follow_dead_letter(home, schemas, transaction, case, message, change, caller)
    elif case.state == "failed":
        change = change._replace(reason=f"review: {case.reason}", told=told | {"reason": f"review: {case.reason}"})
        await apply(transaction, FAIL_REVIEW, home, [change], caller)
    else:
        await apply(transaction, DECIDE if case.state == "decided" else WITHDRAW, home, [change], caller)


def _result(case: Case) -> dict[str, str]:
    if case.outcome is None:
        return {}
    corrected = {} if case.corrected_body is None else {"corrected_body": case.corrected_body}
    return {"result": msgspec.json.encode({**case.outcome, **corrected}).decode()}


async def _follow_dead_letter(
    home: QueueRecord,
    schemas: Schemas,
    transaction: SqlUnitOfWork,
    case: Case,
    message: Any,
    change: Change,
    caller: Caller,
) -> None:
    decided = case.state == "decided"
    if decided and (case.outcome or {}).get(case.spec.decision.field) != APPROVE:
        await apply(transaction, REJECT, home, [change._replace(detail="rejected")], caller)
        return
    columns: dict[str, Any] = {"finished_at": message["finished_at"]}  # when it died
    if decided and case.corrected_body is not None:
        body = msgspec.json.encode(case.corrected_body)
        bound = await schemas.checker_of(home.id)
        if bound is not None:  # what could not be published does not get in by a correction either
            bound[2].check(body, bound[0], bound[1])
        published = message["body_digest"] or hashlib.sha256(message["body"].encode()).hexdigest()
        columns |= {"body": body.decode(), "body_digest": published}
        corrected = change._replace(detail=case.votes[-1].person, columns=columns)
        await apply(transaction, CORRECT, home, [corrected], caller)
    else:
        await apply(transaction, LEAVE_DEAD, home, [change._replace(columns=columns)], caller)
    if decided:  # else nobody decided: it stays a dead letter
        letters = await transaction.lock_rows(messages.c.id == message["id"])
        await revive(transaction, home, letters, caller, None)


def require_replays_left(message_id: str, replays: int, limit: int = MAX_REPLAYS) -> None:
    """The loop guard: asked before a dead letter is sent to review."""
    if replays >= limit:
        raise ReplayLoop(message_id=message_id, replays=replays)

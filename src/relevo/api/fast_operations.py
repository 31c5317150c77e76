"""The fast operations as one table: where each is, what it takes and answers, and what the document says of it.

fast_routes.py answers their requests before the framework sees them: the router here is for the document alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import APIRouter

from relevo.api.openapi import describe
from relevo.api.params import MessageKey, QueueSlug, ScopeSlug
from relevo.contract.claims import (
    Claimed,
    ClaimIn,
    CompleteBatch,
    CompleteIn,
    ExtendBatch,
    ExtendIn,
    FailBatch,
    FailIn,
    ReleaseBatch,
    ReleaseIn,
    Settled,
)
from relevo.contract.messages import BatchIn, BatchOutcome, MessageIn, PlainBatch, PlainMessage, Published
from relevo.errors import (
    ClaimLost,
    IdempotencyConflict,
    QueueArchived,
    QueueDraining,
    QueuePaused,
    ScopePaused,
    WorkQueueFull,
    WrongConsumerMode,
)
from relevo.work.message.verdict import Verdict

_CLOSED = (ScopePaused, QueuePaused, QueueArchived)


@dataclass(frozen=True, slots=True)
class FastOperation:
    """One of them; `path` is also its name in the metrics."""

    path: str
    summary: str
    decoder: msgspec.json.Decoder[Any]
    described: dict[str, Any]


def _operation(
    path: str, operation_id: str, summary: str, *, body: Any, answer: Any, **described: Any
) -> FastOperation:
    about = describe(operation_id, answer, body=body, **described)
    return FastOperation(f"/v1/scopes/{{scope}}/{path}", summary, msgspec.json.Decoder(body), about)


PUBLISH = _operation(
    "queues/{queue}/messages",
    "publish_message",
    "Publish a message: when this is answered, it is on disk. 200 instead of 201: the idempotency key was known",
    body=MessageIn,
    answer=Published,
    status=201,
    also=(200,),
    problems=(*_CLOSED, QueueDraining, IdempotencyConflict, WorkQueueFull),
)
PUBLISH_BATCH = _operation(
    "queues/{queue}/messages/batch",
    "publish_messages",
    "Publish up to 1000 messages in one transaction; each has its own outcome",
    body=BatchIn,
    answer=list[BatchOutcome],
    problems=(*_CLOSED, QueueDraining),
)
PLAIN = msgspec.json.Decoder(PlainMessage)
PLAIN_BATCH = msgspec.json.Decoder(PlainBatch)
CLAIM = _operation(
    "queues/{queue}/claim",
    "claim_messages",
    "Claim the next messages; with `wait_s` waits for the first",
    body=ClaimIn,
    answer=list[Claimed],
    problems=(*_CLOSED, WrongConsumerMode),
)


def _settle_many(verdict: Verdict, summary: str, body: Any) -> FastOperation:
    return _operation(f"queues/{{queue}}/{verdict}", f"{verdict}_messages", summary, body=body, answer=list[Settled])


def _settle(verdict: Verdict, summary: str, body: Any) -> FastOperation:
    path = f"messages/{{message_id}}/{verdict}"
    return _operation(path, f"{verdict}_message", summary, body=body, answer=Settled, problems=(ClaimLost,))


SETTLE_MANY: dict[Verdict, FastOperation] = {
    "complete": _settle_many("complete", "Complete many", CompleteBatch),
    "fail": _settle_many("fail", "Fail many", FailBatch),
    "release": _settle_many("release", "Release many", ReleaseBatch),
    "extend": _settle_many("extend", "Extend many", ExtendBatch),
}
SETTLE: dict[Verdict, FastOperation] = {
    "complete": _settle("complete", "Finish a claimed message with its result", CompleteIn),
    "fail": _settle(
        "fail",
        "Give a claimed message back as failed: it comes again after a pause, or goes to the dead letters",
        FailIn,
    ),
    "release": _settle("release", "Give a claimed message back untouched", ReleaseIn),
    "extend": _settle("extend", "Keep a claimed message for longer", ExtendIn),
}

router = APIRouter(tags=["work"])


async def _of_queue(scope: ScopeSlug, queue: QueueSlug) -> None:
    raise AssertionError(f"fast_routes.py answers requests for {scope}/{queue}")


async def _of_message(scope: ScopeSlug, message_id: MessageKey) -> None:
    raise AssertionError(f"fast_routes.py answers requests for {scope}/{message_id}")


for _each in (PUBLISH, PUBLISH_BATCH, CLAIM, *SETTLE_MANY.values(), *SETTLE.values()):
    _endpoint = _of_queue if "{queue}" in _each.path else _of_message
    router.add_api_route(_each.path, _endpoint, methods=["POST"], summary=_each.summary, **_each.described)

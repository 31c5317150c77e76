"""The hot routes as the document knows them. Their requests never get here: hot.py answers them first."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from relevo.api.document import describe
from relevo.api.questions import MessageKey, QueueSlug, ScopeSlug
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
from relevo.contract.messages import BatchIn, MessageIn, Published, Refusal
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

router = APIRouter(prefix="/v1/scopes/{scope}", tags=["work"])

_CLOSED = (ScopePaused, QueuePaused, QueueArchived)

_OF_QUEUE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "messages",
        "Publish a message: when this is answered, it is on disk. 200 instead of 201: the idempotency key was known",
        describe(
            "publish_message",
            Published,
            body=MessageIn,
            status=201,
            also=(200,),
            problems=(*_CLOSED, QueueDraining, IdempotencyConflict, WorkQueueFull),
        ),
    ),
    (
        "messages/batch",
        "Publish up to 1000 messages in one transaction; each has its own outcome",
        describe("publish_messages", list[Published | Refusal], body=BatchIn, problems=(*_CLOSED, QueueDraining)),
    ),
    (
        "claim",
        "Claim the next messages; with `wait_s` waits for the first",
        describe("claim_messages", list[Claimed], body=ClaimIn, problems=(*_CLOSED, WrongConsumerMode)),
    ),
    ("complete", "Complete many", describe("complete_messages", list[Settled], body=CompleteBatch)),
    ("fail", "Fail many", describe("fail_messages", list[Settled], body=FailBatch)),
    ("release", "Release many", describe("release_messages", list[Settled], body=ReleaseBatch)),
    ("extend", "Extend many", describe("extend_messages", list[Settled], body=ExtendBatch)),
)

_OF_MESSAGE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "complete",
        "Finish a claimed message with its result",
        describe("complete_message", Settled, body=CompleteIn, problems=[ClaimLost]),
    ),
    (
        "fail",
        "Give a claimed message back as failed: it comes again after a pause, or goes to the dead letters",
        describe("fail_message", Settled, body=FailIn, problems=[ClaimLost]),
    ),
    (
        "release",
        "Give a claimed message back untouched",
        describe("release_message", Settled, body=ReleaseIn, problems=[ClaimLost]),
    ),
    (
        "extend",
        "Keep a claimed message for longer",
        describe("extend_message", Settled, body=ExtendIn, problems=[ClaimLost]),
    ),
)


async def _of_queue(scope: ScopeSlug, queue: QueueSlug) -> None:
    raise AssertionError(f"hot.py answers requests for {scope}/{queue}")


async def _of_message(scope: ScopeSlug, message_id: MessageKey) -> None:
    raise AssertionError(f"hot.py answers requests for {scope}/{message_id}")


for _path, _summary, _described in _OF_QUEUE:
    router.add_api_route(f"/queues/{{queue}}/{_path}", _of_queue, methods=["POST"], summary=_summary, **_described)
for _path, _summary, _described in _OF_MESSAGE:
    router.add_api_route(
        f"/messages/{{message_id}}/{_path}", _of_message, methods=["POST"], summary=_summary, **_described
    )

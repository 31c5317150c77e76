"""`/v1/scopes/{scope}/reviews`: what waits for people, and what they do with it; and how dead letters get there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from fastapi import Depends, Header, Path, Query, Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues, header
from relevo.api.openapi import describe
from relevo.api.params import MessageKey, Paged, ReviewKey, ScopeSlug, TextFilter
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.reviews import (
    CaseState,
    CommentIn,
    DecisionIn,
    HandOverIn,
    SendIn,
    StreamLetterIn,
    StreamWatch,
    WatchIn,
    WithdrawIn,
)
from relevo.errors import (
    BadDecision,
    BadReviewSpec,
    InvalidInput,
    NotYourReview,
    PermissionDenied,
    ReplayLoop,
    ReviewChanged,
    ReviewHeld,
    ReviewOver,
    SchemaInvalid,
    StreamQueueClosed,
    WrongState,
)
from relevo.work.caller import Caller
from relevo.work.review.reviews import Review
from relevo.work.work_queues import WorkQueues

router = idempotency.router("/v1/scopes/{scope}", tag="reviews")

_CHANGES = (NotYourReview, ReviewChanged, ReviewHeld, ReviewOver)


_DECISION, _HAND_OVER = msgspec.json.Decoder(DecisionIn), msgspec.json.Decoder(HandOverIn)
_COMMENT = msgspec.json.Decoder(CommentIn)
_WITHDRAW, _SEND = msgspec.json.Decoder(WithdrawIn), msgspec.json.Decoder(SendIn)
_STREAM_LETTER, _WATCH = msgspec.json.Decoder(StreamLetterIn), msgspec.json.Decoder(WatchIn)


Person = Annotated[
    str | None,
    Header(alias="Relevo-Person", description="for whom the request is made, if the key acts for people; UTF-8"),
]
"""For the document: `person_of` reads the header itself, because the framework takes its bytes for Latin-1."""


def person_of(request: Request, caller: Caller) -> str:
    """Who acts: the one the key is named after, or the person it names, if it is one that acts for people."""
    named = header(request.scope["headers"], b"relevo-person")
    if named is None:
        return caller.person
    if not caller.acts_for_people:
        raise PermissionDenied(permission="act for people")
    try:
        person = named.decode().strip()
    except UnicodeDecodeError:
        person = ""
    if not person.isprintable() or not 0 < len(person) <= 200:
        raise InvalidInput(where="Relevo-Person", reason="name one person, in up to 200 printable characters")
    return person


@router.get(
    "/reviews", summary="What waits for people, oldest first", **describe("list_reviews", list[Review], paged=True)
)
async def list_reviews(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    paging: Paged,
    state: CaseState | None = None,
    holder: TextFilter = None,
    person: TextFilter = None,
) -> Response:
    page = await work_queues.reviews.inbox(caller, scope, state=state, holder=holder, person=person, **paging)
    return page_answer(page, caller.request_id)


@router.get("/reviews/{review_id}", summary="Read a review", **describe("get_review", Review))
async def get_review(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, review_id: ReviewKey
) -> Response:
    return answer(await work_queues.reviews.get(caller, scope, review_id), caller.request_id)


@router.get(
    "/reviews/{review_id}/result", summary="Wait until a review is over", **describe("get_review_result", Review)
)
async def get_result(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    review_id: ReviewKey,
    wait_s: Annotated[float, Query(ge=0, le=60)] = 0.0,
) -> Response:
    found = await work_queues.reviews.result(caller, scope, review_id, wait_s=wait_s)
    return answer(found, caller.request_id)


@dataclass(frozen=True, slots=True)
class Act:
    """One review, who acts on it, and for whom: what all the routes below begin with."""

    request: Request
    work_queues: WorkQueues
    caller: Caller
    scope: str
    review_id: str
    person: str

    @property
    def who(self) -> tuple[Caller, str, str, str]:
        """What everything that people do with a review asks first."""
        return self.caller, self.scope, self.review_id, self.person

    def answer(self, review: Review) -> Response:
        return answer(review, self.caller.request_id)


async def act(
    request: Request,
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    review_id: ReviewKey,
    _: Person = None,
) -> Act:
    return Act(request, work_queues, caller, scope, review_id, person_of(request, caller))


Acting = Annotated[Act, Depends(act)]


@router.post(
    "/reviews/{review_id}/claim",
    summary="Take a review into one's hands",
    **describe("claim_review", Review, problems=_CHANGES),
)
async def claim_review(act: Acting) -> Response:
    return act.answer(await act.work_queues.reviews.claim(*act.who))


@router.post(
    "/reviews/{review_id}/release",
    summary="Give a review back",
    **describe("release_review", Review, problems=_CHANGES),
)
async def release_review(act: Acting) -> Response:
    return act.answer(await act.work_queues.reviews.release(*act.who))


@router.post(
    "/reviews/{review_id}/hand-over",
    summary="Hand a review to somebody else",
    **describe("hand_over_review", Review, body=HandOverIn, problems=_CHANGES),
)
async def hand_over_review(act: Acting) -> Response:
    body = await body_of(act.request, _HAND_OVER)
    return act.answer(await act.work_queues.reviews.hand_over(*act.who, body.to))


@router.post(
    "/reviews/{review_id}/comment",
    summary="Say something about a review",
    **describe("comment_review", Review, body=CommentIn, problems=(*_CHANGES, BadDecision)),
)
async def comment_review(act: Acting) -> Response:
    body = await body_of(act.request, _COMMENT)
    return act.answer(await act.work_queues.reviews.comment(*act.who, body.text))


@router.post(
    "/reviews/{review_id}/decide",
    summary="Answer a review",
    **describe("decide_review", Review, body=DecisionIn, problems=(*_CHANGES, BadDecision, SchemaInvalid)),
)
async def decide_review(act: Acting) -> Response:
    body = await body_of(act.request, _DECISION)
    corrected = msgspec.json.decode(body.corrected_body) if len(body.corrected_body) else None
    return act.answer(await act.work_queues.reviews.decide(*act.who, body.answer, corrected_body=corrected))


@router.post(
    "/reviews/{review_id}/withdraw",
    summary="End a review without an answer",
    **describe("withdraw_review", Review, body=WithdrawIn, body_optional=True, problems=_CHANGES),
)
async def withdraw_review(act: Acting) -> Response:
    body = await body_of(act.request, _WITHDRAW, optional=True)
    return act.answer(await act.work_queues.reviews.withdraw(*act.who, body.reason))


# --- how dead letters get here ---------------------------------------------------------------------------------------------


@router.post(
    "/dead-letters/{message_id}/review",
    summary="Have people look at a dead letter; approved, it goes back",
    **describe(
        "review_dead_letter",
        Review,
        body=SendIn,
        body_optional=True,
        status=201,
        problems=[BadReviewSpec, ReplayLoop, WrongState],
    ),
)
async def review_dead_letter(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, message_id: MessageKey
) -> Response:
    body = await body_of(request, _SEND, optional=True)
    opened = await work_queues.reviews.open_for_dead_letter(caller, scope, message_id, body.review)
    return answer(opened, caller.request_id, 201)


@router.post(
    "/stream-dead-letters",
    summary="Have people look at a dead letter of a stream queue; approved, it goes back",
    **describe(
        "review_stream_dead_letter",
        Review,
        body=StreamLetterIn,
        status=201,
        problems=[BadReviewSpec, ReplayLoop, StreamQueueClosed],
    ),
)
async def review_stream_dead_letter(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    body = await body_of(request, _STREAM_LETTER)
    opened = await work_queues.stream_letters.review(caller, scope, body.stream_queue, body.entry_id, body.review)
    return answer(opened, caller.request_id, 201)


@router.get(
    "/stream-watches",
    summary="Stream queues whose dead letters go to review",
    **describe("list_stream_watches", list[StreamWatch], paged=True),
)
async def list_watches(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, paging: Paged) -> Response:
    return page_answer(await work_queues.stream_letters.watches(caller, scope, **paging), caller.request_id)


@router.post(
    "/stream-watches",
    summary="Send the dead letters of a stream queue to review from now on",
    **describe("watch_stream", StreamWatch, body=WatchIn, status=201, problems=[BadReviewSpec, StreamQueueClosed]),
)
async def watch_stream(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    body = await body_of(request, _WATCH)
    made = await work_queues.stream_letters.watch(caller, scope, body.stream_queue, body.review)
    return answer(made, caller.request_id, 201)


@router.delete("/stream-watches/{stream_queue}", summary="No longer", **describe("unwatch_stream", None, status=204))
async def unwatch_stream(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    stream_queue: Annotated[str, Path(max_length=200, description="name of the stream queue")],
) -> Response:
    await work_queues.stream_letters.unwatch(caller, scope, stream_queue)
    return Response(status_code=204)

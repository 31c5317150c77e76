"""The page of one review: what it is about, who holds it, what was said, and the form of the one who holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from relevo.console.answer_form import AnswerForm, read_answer
from relevo.console.forms import posted
from relevo.console.login import Visit
from relevo.console.rendering import HEADERS, pretty
from relevo.errors import (
    BadDecision,
    InvalidInput,
    NotYourReview,
    PermissionDenied,
    ReviewChanged,
    ReviewHeld,
    ReviewOver,
    SchemaInvalid,
    WorkError,
)
from relevo.wire.ids import require_id
from relevo.work.review.reviews import Review
from relevo.work.review.subject import Subject

if TYPE_CHECKING:
    from relevo.console.console import Console

DONE = {
    "claim": "This review is in your hands now.",
    "hold": "You hold it for longer now.",
    "hand-over": "It is in other hands now.",
    "comment": "Your comment is there.",
    "sent": "The dead letter waits for a decision now.",
}
_LONGEST = 10_000
_TOLD_HERE = (
    *(BadDecision, NotYourReview, ReviewHeld, ReviewOver, ReviewChanged, SchemaInvalid),
    *(InvalidInput, PermissionDenied),
)


async def show_review(console: Console, visit: Visit) -> Response:
    review, subject = await _found(console, visit)
    notice = DONE.get(visit.request.query_params.get("done", ""))
    return _page(console, visit, review, subject, notice=notice)


async def act(console: Console, visit: Visit) -> Response:
    """Claim, hold, release, hand over, comment or decide; afterwards the page is shown anew, or what is wrong on it."""
    fields = await posted(visit.request, visit.token)
    verb = visit.request.path_params["verb"]
    if verb not in ("claim", "hold", "release", "hand-over", "comment", "decide"):
        raise HTTPException(404)
    review, subject = await _found(console, visit)
    form: AnswerForm | None = None
    try:
        faults = _faults(verb, fields)
        if verb == "decide":
            form = read_answer(review.spec, fields, subject.body)
            faults = form.faults
        if not faults:
            review = await _done(console, visit, review, verb, fields, form)
    except _TOLD_HERE as error:
        review, subject = await _found(console, visit)
        return _page(
            console, visit, review, subject, form=form, typed=fields, error=_sentence(error), status=error.status
        )
    if faults:
        return _page(console, visit, review, subject, form=form, typed=fields, faults=faults, status=422)
    place = f"/console/scopes/{review.scope}/reviews/{review.id}"
    after = {"decide": "/console/reviews?done=decided", "release": "/console/reviews?done=released"}
    return RedirectResponse(after.get(verb, f"{place}?done={verb}"), 303, headers=HEADERS)


async def _done(
    console: Console, visit: Visit, review: Review, verb: str, fields: Mapping[str, str], form: AnswerForm | None
) -> Review:
    reviews, person = console.work_queues.reviews, visit.person
    caller, scope = visit.session.caller(review.scope, "review"), review.scope
    if verb in ("claim", "hold"):
        return await reviews.claim(caller, scope, review.id, person)
    if verb == "release":
        return await reviews.release(caller, scope, review.id, person)
    if verb == "hand-over":
        return await reviews.hand_over(caller, scope, review.id, person, fields["to"].strip())
    if verb == "comment":
        return await reviews.comment(caller, scope, review.id, person, fields["text"].strip())
    assert form is not None
    return await reviews.decide(caller, scope, review.id, person, form.answer, corrected_body=form.corrected_body)


def _faults(verb: str, fields: Mapping[str, str]) -> dict[str, str]:
    if verb == "hand-over":
        to = fields.get("to", "").strip()
        return {} if 0 < len(to) <= 200 and to.isprintable() else {"to": "Name the person who takes it over"}
    if verb == "comment":
        text = fields.get("text", "").strip()
        return {} if 0 < len(text) <= _LONGEST else {"text": f"Write something, in up to {_LONGEST} characters"}
    return {}


async def _found(console: Console, visit: Visit) -> tuple[Review, Subject]:
    scope, review_id = visit.request.path_params["scope"], require_id("review", visit.request.path_params["review"])
    caller = visit.session.caller(scope)
    review = await console.work_queues.reviews.get(caller, scope, review_id)
    return review, await console.work_queues.subjects.of(caller, review)


def _page(
    console: Console,
    visit: Visit,
    review: Review,
    subject: Subject,
    *,
    form: AnswerForm | None = None,
    typed: Mapping[str, str] | None = None,
    faults: Mapping[str, str] | None = None,
    notice: str | None = None,
    error: str | None = None,
    status: int = 200,
) -> Response:
    over = review.finished_at is not None
    now = console.work_queues.now_ms()
    held = review.holder is not None and (review.held_until is None or review.held_until > now)
    if held and review.holder == visit.person:
        stand = "mine"
    elif held:
        stand = "theirs"
    elif any(vote.person == visit.person for vote in review.votes):
        stand = "voted"
    elif review.assignees and visit.person not in review.assignees:
        stand = "not-for-me"
    else:
        stand = "free"
    options = {option.value: option for option in review.spec.decision.options}
    return console.pages.show(
        "review",
        status=status,
        visit=visit,
        review=review,
        subject=subject,
        stand="over" if over else stand,
        options=options,
        typed=dict(typed or (form.typed if form else {})),
        faults=dict(faults or {}),
        notice=notice,
        error=error,
        body=None if subject.body is None else pretty(subject.body),
        inputs=_inputs(review, options),
        votes_needed=review.spec.quorum - len(review.votes),
        tab="reviews",
    )


def _inputs(review: Review, options: Mapping[str, object]) -> list[dict[str, object]]:
    """The fields as the template wants them: what they start with, and with which decisions they go."""
    return [
        {
            "asked": each,
            "start": "" if each.default is None else _typed(each.default),
            "only_for": [getattr(options[value], "label", "") or value for value in each.only_for],
        }
        for each in review.spec.input
    ]


def _typed(default: object) -> str:
    return default if isinstance(default, str) else msgspec.json.encode(default).decode()


def _sentence(error: WorkError) -> str:
    if isinstance(error, ReviewHeld):
        return f"{error.fields['holder']} was quicker: the review is in their hands now."
    return " ".join(str(error).split())

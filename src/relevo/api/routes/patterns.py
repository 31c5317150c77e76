"""`/v1/scopes/{scope}/review-patterns`: specifications of reviews under a name, with versions and a preview."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Path, Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import Paged, ScopeSlug, Version
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.fields import RequestBody, Slug, about
from relevo.contract.reviews import PreviewIn
from relevo.errors import BadReviewSpec
from relevo.work.review.patterns import Pattern, PatternUse
from relevo.work.review.spec import ReviewSpec

router = idempotency.router("/v1/scopes/{scope}/review-patterns", tag="reviews")

PatternName = Annotated[str, Path(max_length=63, description="name of the pattern")]


class PatternIn(RequestBody):
    """A pattern to make, or a new version of it."""

    name: Annotated[Slug, about("Its name. If there is one, this becomes its next version.")]
    spec: Annotated[ReviewSpec, about("What people are asked, with `{{parameter}}` where something is filled in.")]


_NEW, _PREVIEW = msgspec.json.Decoder(PatternIn), msgspec.json.Decoder(PreviewIn)


@router.get(
    "", summary="The latest version of each pattern", **describe("list_review_patterns", list[Pattern], paged=True)
)
async def list_patterns(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, paging: Paged
) -> Response:
    return page_answer(await work_queues.patterns.list(caller, scope, **paging), caller.request_id)


@router.post(
    "",
    summary="Make a pattern, or a new version",
    **describe("add_review_pattern", Pattern, body=PatternIn, status=201, problems=[BadReviewSpec]),
)
async def add_pattern(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    body = await body_of(request, _NEW)
    return answer(await work_queues.patterns.add(caller, scope, body.name, body.spec), caller.request_id, 201)


@router.get("/{pattern}", summary="Read a pattern", **describe("get_review_pattern", Pattern))
async def get_pattern(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, pattern: PatternName, version: Version = None
) -> Response:
    return answer(await work_queues.patterns.get(caller, scope, pattern, version), caller.request_id)


@router.post(
    "/{pattern}/preview",
    summary="What people would see",
    **describe("preview_review_pattern", ReviewSpec, body=PreviewIn, body_optional=True, problems=[BadReviewSpec]),
)
async def preview_pattern(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, pattern: PatternName
) -> Response:
    body = await body_of(request, _PREVIEW, optional=True)
    use = PatternUse(pattern=pattern, version=body.version, parameters=body.parameters)
    about = msgspec.json.decode(body.body) if len(body.body) else None
    return answer(await work_queues.patterns.preview(caller, scope, use, about), caller.request_id)

"""`/v1/scopes/{scope}/rules`: the routing rules of a scope, how they do, and `…/rule-dry-runs`: what one would do."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Path, Request, Response
from msgspec import Meta, Raw

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import Paged, ScopeSlug
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract import rules as contract
from relevo.contract.fields import AnyQueue, Labels, RequestBody, Word, about
from relevo.contract.rules import Tried
from relevo.errors import BadRule, InvalidInput, SlugTaken
from relevo.work.routing import rules as work
from relevo.work.routing.rule import Rule

router = idempotency.router("/v1/scopes/{scope}", tag="rules")

RuleName = Annotated[str, Path(max_length=63, description="name of the rule")]


class StoredRule(contract.StoredRule, frozen=True, kw_only=True):
    """A rule and how it does. While its breaker is `open` nobody asks it."""

    rule: Annotated[Rule, about("The rule as it was written.")]


class DryRunIn(RequestBody):
    """A rule to try out: on `body`, or on the `last` messages of the queue."""

    rule: Annotated[Rule, about("The rule.")]
    queue: Annotated[AnyQueue, about("The queue that the message is in.")]
    body: Annotated[Raw, about("The body of a message to try it on.")] = msgspec.field(default_factory=Raw)
    labels: Annotated[Labels, about("The labels of that message.")] = msgspec.field(default_factory=dict[str, str])
    message_type: Annotated[Word, about("The type of that message.")] = "message"
    last: Annotated[
        Annotated[int, Meta(ge=1, le=500)] | None,
        about("Instead of a body: how many of the last messages to try it on."),
    ] = None


_RULE = msgspec.json.Decoder(Rule)
_DRY_RUN = msgspec.json.Decoder(DryRunIn)


@router.get(
    "/rules",
    summary="The rules of a scope, in the order in which they are asked",
    **describe("list_rules", list[StoredRule], paged=True),
)
async def list_rules(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, paging: Paged) -> Response:
    page = await work_queues.rules.list(caller, scope, **paging)
    return page_answer(page, caller.request_id, [_shown(each) for each in page.items])


@router.post(
    "/rules",
    summary="Make a rule",
    **describe("create_rule", StoredRule, body=Rule, status=201, problems=[BadRule, SlugTaken]),
)
async def create_rule(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    made = await work_queues.rules.create(caller, scope, await body_of(request, _RULE))
    return answer(_shown(made), caller.request_id, 201)


@router.post(
    "/rule-dry-runs",
    summary="What a rule would do, with a sample or with the last messages of a queue",
    **describe("try_rule", list[Tried], body=DryRunIn, problems=[BadRule]),
)
async def dry_run(request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug) -> Response:
    body = await body_of(request, _DRY_RUN)
    if (body.last is None) == (len(body.body) == 0):
        raise InvalidInput(where="body", reason="pass a `body` to try the rule on, or how many of the `last` messages")
    if body.last is not None:
        tried = await work_queues.dry_runs.last(caller, scope, body.rule, queue=body.queue, limit=body.last)
    else:
        tried = await work_queues.dry_runs.sample(
            caller,
            scope,
            body.rule,
            queue=body.queue,
            body=body.body,
            labels=dict(body.labels),
            message_type=body.message_type,
        )
    return answer(tried, caller.request_id)


@router.get("/rules/{rule}", summary="Read a rule", **describe("get_rule", StoredRule))
async def get_rule(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, rule: RuleName) -> Response:
    return answer(_shown(await work_queues.rules.get(caller, scope, rule)), caller.request_id)


@router.put(
    "/rules/{rule}", summary="Replace a rule", **describe("replace_rule", StoredRule, body=Rule, problems=[BadRule])
)
async def change_rule(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, rule: RuleName
) -> Response:
    changed = await work_queues.rules.change(caller, scope, rule, await body_of(request, _RULE))
    return answer(_shown(changed), caller.request_id)


@router.post("/rules/{rule}/reset", summary="Close the breaker of a rule", **describe("reset_rule", StoredRule))
async def reset_rule(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, rule: RuleName) -> Response:
    return answer(_shown(await work_queues.rules.reset(caller, scope, rule)), caller.request_id)


@router.delete("/rules/{rule}", summary="Delete a rule", **describe("delete_rule", None, status=204))
async def delete_rule(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, rule: RuleName) -> Response:
    await work_queues.rules.delete(caller, scope, rule)
    return Response(status_code=204)


def _shown(stored: work.StoredRule) -> StoredRule:
    breaker = stored.breaker
    return StoredRule(
        rule=stored.rule,
        breaker=stored.breaker_state,
        failures_lately=breaker.failures,
        last_error=breaker.last_error,
        opened_at=breaker.opened_at,
        matched=stored.matched,
        failed=stored.failed,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )

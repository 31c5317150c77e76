"""`/v1/scopes/{scope}/schemas`: JSON Schemas of a scope, and which queue asks for which."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Path, Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import Paged, QueueSlug, ScopeSlug, Version
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.schemas import Binding, BindingIn, Compatibility, Schema, SchemaIn
from relevo.errors import BadSchema, SchemaIncompatible, SchemaInUse

router = idempotency.router("/v1/scopes/{scope}", tag="schemas")

SchemaName = Annotated[str, Path(max_length=63, description="name of the schema")]


_NEW, _BINDING = msgspec.json.Decoder(SchemaIn), msgspec.json.Decoder(BindingIn)


@router.get(
    "/schemas", summary="The latest version of each schema", **describe("list_schemas", list[Schema], paged=True)
)
async def list_schemas(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, paging: Paged) -> Response:
    return page_answer(await work_queues.schemas.list(caller, scope, **paging), caller.request_id)


@router.post(
    "/schemas",
    summary="Make a schema, or a new version",
    **describe("add_schema", Schema, body=SchemaIn, status=201, problems=[BadSchema]),
)
async def add_schema(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    body = await body_of(request, _NEW)
    made = await work_queues.schemas.add(caller, scope, body.name, bytes(body.definition).decode())
    return answer(made, caller.request_id, 201)


@router.get("/schemas/{schema}", summary="Read a schema", **describe("get_schema", Schema))
async def get_schema(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, schema: SchemaName, version: Version = None
) -> Response:
    return answer(await work_queues.schemas.get(caller, scope, schema, version), caller.request_id)


@router.delete(
    "/schemas/{schema}",
    summary="Delete all versions of a schema",
    **describe("delete_schema", None, status=204, problems=[SchemaInUse]),
)
async def remove_schema(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, schema: SchemaName
) -> Response:
    await work_queues.schemas.remove(caller, scope, schema)
    return Response(status_code=204)


@router.get(
    "/queues/{queue}/schema",
    summary="What bodies of a queue must fit; null for anything",
    **describe("get_bound_schema", Binding | None),
)
async def get_binding(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, queue: QueueSlug
) -> Response:
    return answer(await work_queues.schemas.bound(caller, scope, queue), caller.request_id)


@router.put(
    "/queues/{queue}/schema",
    summary="Have bodies of a queue fit a schema",
    **describe("bind_schema", Binding, body=BindingIn, problems=[SchemaIncompatible]),
)
async def bind_schema(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, queue: QueueSlug
) -> Response:
    body = await body_of(request, _BINDING)
    bound = await work_queues.schemas.bind(caller, scope, queue, body.name, body.version, force=body.force)
    return answer(bound, caller.request_id)


@router.delete(
    "/queues/{queue}/schema", summary="Take any body from now on", **describe("unbind_schema", None, status=204)
)
async def unbind_schema(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, queue: QueueSlug
) -> Response:
    await work_queues.schemas.unbind(caller, scope, queue)
    return Response(status_code=204)


@router.get(
    "/schemas/{schema}/compatibility/{queue}",
    summary="How what waits in a queue fits a schema",
    **describe("check_schema_compatibility", Compatibility),
)
async def get_compatibility(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    schema: SchemaName,
    queue: QueueSlug,
    version: Version = None,
) -> Response:
    return answer(await work_queues.schemas.compatibility(caller, scope, queue, schema, version), caller.request_id)

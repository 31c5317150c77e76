"""JSON Schemas for asyncio. sync_schemas.py is made from this file."""

from __future__ import annotations

from typing import Any

from relevo.client.async_sender import AsyncSender
from relevo.client.request import Call, at, given
from relevo.contract.pages import Page
from relevo.contract.schemas import Binding, Compatibility, Schema


class AsyncSchemas(AsyncSender):
    """JSON Schemas of a scope, and which queue asks for which."""

    async def schemas(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Schema]:
        """The latest version of each."""
        question = {"limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "schemas"), Page[Schema], question=question))

    async def schema(self, scope: str, schema: str, *, version: int | None = None) -> Schema:
        return await self.send(
            Call("GET", at("scopes", scope, "schemas", schema), Schema, question={"version": version})
        )

    async def add_schema(self, scope: str, schema: str, definition: Any) -> Schema:
        """A schema, or a new version of it."""
        return await self.send(
            Call(
                "POST",
                at("scopes", scope, "schemas"),
                Schema,
                {"name": schema, "definition": definition},
                once=True,
            )
        )

    async def delete_schema(self, scope: str, schema: str) -> None:
        await self.send(Call[None]("DELETE", at("scopes", scope, "schemas", schema), None, safe=False))

    async def bound_schema(self, scope: str, queue: str) -> Binding | None:
        """What bodies of a queue must fit; None for anything."""
        return await self.send(
            Call[Binding | None]("GET", at("scopes", scope, "queues", queue, "schema"), Binding | None)
        )

    async def bind_schema(
        self, scope: str, queue: str, schema: str, *, version: int | None = None, force: bool = False
    ) -> Binding:
        """From now on bodies of the queue must fit. `SchemaIncompatible` when some that wait do not, unless `force`."""
        body = {"name": schema, "force": force, **given(version=version)}
        return await self.send(Call("PUT", at("scopes", scope, "queues", queue, "schema"), Binding, body))

    async def unbind_schema(self, scope: str, queue: str) -> None:
        await self.send(Call[None]("DELETE", at("scopes", scope, "queues", queue, "schema"), None, safe=False))

    async def compatibility(self, scope: str, schema: str, queue: str, *, version: int | None = None) -> Compatibility:
        """How what waits in a queue fits a schema."""
        path = at("scopes", scope, "schemas", schema, "compatibility", queue)
        return await self.send(Call("GET", path, Compatibility, question={"version": version}))

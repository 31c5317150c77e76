"""The client without asyncio. Made from async_schemas.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

from typing import Any

from relevo.client.request import Call, at, given
from relevo.client.sync_sender import Sender
from relevo.contract.pages import Page
from relevo.contract.schemas import Binding, Compatibility, Schema


class Schemas(Sender):
    """JSON Schemas of a scope, and which queue asks for which."""

    def schemas(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Schema]:
        """The latest version of each."""
        question = {"limit": limit, "cursor": cursor}
        return self.send(Call("GET", at("scopes", scope, "schemas"), Page[Schema], question=question))

    def schema(self, scope: str, schema: str, *, version: int | None = None) -> Schema:
        return self.send(Call("GET", at("scopes", scope, "schemas", schema), Schema, question={"version": version}))

    def add_schema(self, scope: str, schema: str, definition: Any) -> Schema:
        """A schema, or a new version of it."""
        return self.send(
            Call(
                "POST",
                at("scopes", scope, "schemas"),
                Schema,
                {"name": schema, "definition": definition},
                once=True,
            )
        )

    def delete_schema(self, scope: str, schema: str) -> None:
        self.send(Call[None]("DELETE", at("scopes", scope, "schemas", schema), None, safe=False))

    def bound_schema(self, scope: str, queue: str) -> Binding | None:
        """What bodies of a queue must fit; None for anything."""
        return self.send(Call[Binding | None]("GET", at("scopes", scope, "queues", queue, "schema"), Binding | None))

    def bind_schema(
        self, scope: str, queue: str, schema: str, *, version: int | None = None, force: bool = False
    ) -> Binding:
        """From now on bodies of the queue must fit. `SchemaIncompatible` when some that wait do not, unless `force`."""
        body = {"name": schema, "force": force, **given(version=version)}
        return self.send(Call("PUT", at("scopes", scope, "queues", queue, "schema"), Binding, body))

    def unbind_schema(self, scope: str, queue: str) -> None:
        self.send(Call[None]("DELETE", at("scopes", scope, "queues", queue, "schema"), None, safe=False))

    def compatibility(self, scope: str, schema: str, queue: str, *, version: int | None = None) -> Compatibility:
        """How what waits in a queue fits a schema."""
        path = at("scopes", scope, "schemas", schema, "compatibility", queue)
        return self.send(Call("GET", path, Compatibility, question={"version": version}))

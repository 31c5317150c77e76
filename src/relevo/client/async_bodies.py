"""Bodies for asyncio: schemas they must fit, parts they come in, their erasure. sync_bodies.py is made from this file."""

from __future__ import annotations

from typing import Any

from relevo.client.async_sender import AsyncSender
from relevo.client.request import Call, at, given
from relevo.contract.chunks import Chunk, Chunks
from relevo.contract.claims import Claimed
from relevo.contract.erasures import Erasure
from relevo.contract.pages import Page
from relevo.contract.schemas import Binding, Compatibility, Schema


class AsyncBodies(AsyncSender):
    """JSON Schemas of a scope, parts of long results, and erasure by the label `subject`."""

    async def schemas(self, scope: str) -> list[Schema]:
        """The latest version of each."""
        return await self.send(Call("GET", at("scopes", scope, "schemas"), list[Schema]))

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
                safe=False,
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

    # --- parts ------------------------------------------------------------------------------------------------------

    async def append_chunk(
        self, scope: str, message: Claimed, body: Any, *, number: int | None = None, final: bool = False
    ) -> Chunk:
        """Adds a part to the result of a message that you hold. With a `number` it may be sent again."""
        # With a number it is the same part however often it is sent.
        sent = {"claim_token": message.claim_token, "body": body, "final": final, **given(number=number)}
        call = Call("POST", at("scopes", scope, "messages", message.id, "chunks"), Chunk, sent, safe=number is not None)
        return await self.send(call)

    async def chunks(
        self,
        scope: str,
        message_id: str,
        *,
        after: int = 0,
        stream: str | None = None,
        wait_s: float = 0.0,
        limit: int = 100,
    ) -> Chunks:
        """Parts behind number `after`, in order; waits for the next one. Pass the `stream` of the answer before."""
        question = {"after": after, "stream": stream, "wait_s": wait_s, "limit": limit}
        return await self.send(
            Call(
                "GET",
                at("scopes", scope, "messages", message_id, "chunks"),
                Chunks,
                question=question,
                waits_s=wait_s,
            )
        )

    # --- erasure ----------------------------------------------------------------------------------------------------

    async def erase(self, scope: str, subject: str) -> Erasure:
        """Erases what messages labelled `subject=…` say. Large ones go on in the background: see `erasure`."""
        # Sent twice it finds nothing left the second time.
        return await self.send(Call("POST", at("scopes", scope, "erasures"), Erasure, {"subject": subject}))

    async def erasures(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Erasure]:
        question = {"limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "erasures"), Page[Erasure], question=question))

    async def erasure(self, scope: str, erasure_id: str) -> Erasure:
        return await self.send(Call("GET", at("scopes", scope, "erasures", erasure_id), Erasure))

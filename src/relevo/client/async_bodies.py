"""Bodies for asyncio: schemas they must fit, parts they come in, their erasure. sync_bodies.py is made from this file."""

from __future__ import annotations

from typing import Any

from relevo.client import people_calls
from relevo.client.async_sender import AsyncSender
from relevo.contract.chunks import Chunk, Chunks
from relevo.contract.claims import Claimed
from relevo.contract.erasures import Erasure
from relevo.contract.pages import Page
from relevo.contract.schemas import Binding, Compatibility, Schema


class AsyncBodies(AsyncSender):
    """JSON Schemas of a scope, parts of long results, and erasure by the label `subject`."""

    async def schemas(self, scope: str) -> list[Schema]:
        """The latest version of each."""
        return await self.send(people_calls.schemas(scope))

    async def schema(self, scope: str, schema: str, *, version: int | None = None) -> Schema:
        return await self.send(people_calls.schema(scope, schema, version))

    async def add_schema(self, scope: str, schema: str, definition: Any) -> Schema:
        """A schema, or a new version of it."""
        return await self.send(people_calls.add_schema(scope, schema, definition))

    async def delete_schema(self, scope: str, schema: str) -> None:
        await self.send(people_calls.delete_schema(scope, schema))

    async def bound_schema(self, scope: str, queue: str) -> Binding | None:
        """What bodies of a queue must fit; None for anything."""
        return await self.send(people_calls.bound_schema(scope, queue))

    async def bind_schema(
        self, scope: str, queue: str, schema: str, *, version: int | None = None, force: bool = False
    ) -> Binding:
        """From now on bodies of the queue must fit. `SchemaIncompatible` when some that wait do not, unless `force`."""
        return await self.send(people_calls.bind_schema(scope, queue, schema, version, force=force))

    async def unbind_schema(self, scope: str, queue: str) -> None:
        await self.send(people_calls.unbind_schema(scope, queue))

    async def compatibility(self, scope: str, schema: str, queue: str, *, version: int | None = None) -> Compatibility:
        """How what waits in a queue fits a schema."""
        return await self.send(people_calls.compatibility(scope, schema, queue, version))

    # --- parts ------------------------------------------------------------------------------------------------------

    async def append_chunk(
        self, scope: str, message: Claimed, body: Any, *, number: int | None = None, final: bool = False
    ) -> Chunk:
        """Adds a part to the result of a message that you hold. With a `number` it may be sent again."""
        call = people_calls.append_chunk(scope, message.id, message.claim_token, body, number, final=final)
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
        return await self.send(people_calls.chunks(scope, message_id, after, stream, wait_s, limit))

    # --- erasure ----------------------------------------------------------------------------------------------------

    async def erase(self, scope: str, subject: str) -> Erasure:
        """Erases what messages labelled `subject=…` say. Large ones go on in the background: see `erasure`."""
        return await self.send(people_calls.erase(scope, subject))

    async def erasures(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Erasure]:
        return await self.send(people_calls.erasures(scope, limit, cursor))

    async def erasure(self, scope: str, erasure_id: str) -> Erasure:
        return await self.send(people_calls.erasure(scope, erasure_id))

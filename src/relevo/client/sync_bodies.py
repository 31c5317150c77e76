"""The client without asyncio. Made from async_bodies.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

from typing import Any

from relevo.client import people_calls
from relevo.client.sync_sender import Sender
from relevo.contract.chunks import Chunk, Chunks
from relevo.contract.claims import Claimed
from relevo.contract.erasures import Erasure
from relevo.contract.pages import Page
from relevo.contract.schemas import Binding, Compatibility, Schema


class Bodies(Sender):
    """JSON Schemas of a scope, parts of long results, and erasure by the label `subject`."""

    def schemas(self, scope: str) -> list[Schema]:
        """The latest version of each."""
        return self.send(people_calls.schemas(scope))

    def schema(self, scope: str, schema: str, *, version: int | None = None) -> Schema:
        return self.send(people_calls.schema(scope, schema, version))

    def add_schema(self, scope: str, schema: str, definition: Any) -> Schema:
        """A schema, or a new version of it."""
        return self.send(people_calls.add_schema(scope, schema, definition))

    def delete_schema(self, scope: str, schema: str) -> None:
        self.send(people_calls.delete_schema(scope, schema))

    def bound_schema(self, scope: str, queue: str) -> Binding | None:
        """What bodies of a queue must fit; None for anything."""
        return self.send(people_calls.bound_schema(scope, queue))

    def bind_schema(
        self, scope: str, queue: str, schema: str, *, version: int | None = None, force: bool = False
    ) -> Binding:
        """From now on bodies of the queue must fit. `SchemaIncompatible` when some that wait do not, unless `force`."""
        return self.send(people_calls.bind_schema(scope, queue, schema, version, force=force))

    def unbind_schema(self, scope: str, queue: str) -> None:
        self.send(people_calls.unbind_schema(scope, queue))

    def compatibility(self, scope: str, schema: str, queue: str, *, version: int | None = None) -> Compatibility:
        """How what waits in a queue fits a schema."""
        return self.send(people_calls.compatibility(scope, schema, queue, version))

    # --- parts ------------------------------------------------------------------------------------------------------

    def append_chunk(
        self, scope: str, message: Claimed, body: Any, *, number: int | None = None, final: bool = False
    ) -> Chunk:
        """Adds a part to the result of a message that you hold. With a `number` it may be sent again."""
        call = people_calls.append_chunk(scope, message.id, message.claim_token, body, number, final=final)
        return self.send(call)

    def chunks(
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
        return self.send(people_calls.chunks(scope, message_id, after, stream, wait_s, limit))

    # --- erasure ----------------------------------------------------------------------------------------------------

    def erase(self, scope: str, subject: str) -> Erasure:
        """Erases what messages labelled `subject=…` say. Large ones go on in the background: see `erasure`."""
        return self.send(people_calls.erase(scope, subject))

    def erasures(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Erasure]:
        return self.send(people_calls.erasures(scope, limit, cursor))

    def erasure(self, scope: str, erasure_id: str) -> Erasure:
        return self.send(people_calls.erasure(scope, erasure_id))

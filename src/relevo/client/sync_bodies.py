"""The client without asyncio. Made from async_bodies.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

from typing import Any

from relevo.client.request import Call, at, given
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
        return self.send(Call("GET", at("scopes", scope, "schemas"), list[Schema]))

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
                safe=False,
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

    # --- parts ------------------------------------------------------------------------------------------------------

    def append_chunk(
        self, scope: str, message: Claimed, body: Any, *, number: int | None = None, final: bool = False
    ) -> Chunk:
        """Adds a part to the result of a message that you hold. With a `number` it may be sent again."""
        # With a number it is the same part however often it is sent.
        sent = {"claim_token": message.claim_token, "body": body, "final": final, **given(number=number)}
        call = Call("POST", at("scopes", scope, "messages", message.id, "chunks"), Chunk, sent, safe=number is not None)
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
        question = {"after": after, "stream": stream, "wait_s": wait_s, "limit": limit}
        return self.send(
            Call(
                "GET",
                at("scopes", scope, "messages", message_id, "chunks"),
                Chunks,
                question=question,
                waits_s=wait_s,
            )
        )

    # --- erasure ----------------------------------------------------------------------------------------------------

    def erase(self, scope: str, subject: str) -> Erasure:
        """Erases what messages labelled `subject=…` say. Large ones go on in the background: see `erasure`."""
        # Sent twice it finds nothing left the second time.
        return self.send(Call("POST", at("scopes", scope, "erasures"), Erasure, {"subject": subject}))

    def erasures(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Erasure]:
        question = {"limit": limit, "cursor": cursor}
        return self.send(Call("GET", at("scopes", scope, "erasures"), Page[Erasure], question=question))

    def erasure(self, scope: str, erasure_id: str) -> Erasure:
        return self.send(Call("GET", at("scopes", scope, "erasures", erasure_id), Erasure))

"""The client without asyncio. Made from async_chunks.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

from typing import Any

from relevo.client.request import Call, at, given
from relevo.client.sync_sender import Sender
from relevo.contract.chunks import Chunk, Chunks
from relevo.contract.claims import Claimed


class ChunkStream(Sender):
    """Parts of results, while they are made."""

    def append_chunk(
        self, scope: str, message: Claimed, body: Any, *, number: int | None = None, final: bool = False
    ) -> Chunk:
        """Adds a part to the result of a message that you hold. With a `number` it may be sent again."""
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

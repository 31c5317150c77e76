"""Erasure for asyncio. sync_erasures.py is made from this file."""

from __future__ import annotations

from relevo.client.async_sender import AsyncSender
from relevo.client.request import Call, at
from relevo.contract.erasures import Erasure
from relevo.contract.pages import Page


class AsyncErasures(AsyncSender):
    """Erasure by the label `subject`."""

    async def erase(self, scope: str, subject: str) -> Erasure:
        """Erases what messages labelled `subject=…` say. Large ones go on in the background: see `erasure`."""
        # Sent twice it finds nothing left the second time.
        return await self.send(Call("POST", at("scopes", scope, "erasures"), Erasure, {"subject": subject}, once=True))

    async def erasures(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Erasure]:
        question = {"limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "erasures"), Page[Erasure], question=question))

    async def erasure(self, scope: str, erasure_id: str) -> Erasure:
        return await self.send(Call("GET", at("scopes", scope, "erasures", erasure_id), Erasure))

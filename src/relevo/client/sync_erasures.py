"""The client without asyncio. Made from async_erasures.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

from relevo.client.request import Call, at
from relevo.client.sync_sender import Sender
from relevo.contract.erasures import Erasure
from relevo.contract.pages import Page


class Erasures(Sender):
    """Erasure by the label `subject`."""

    def erase(self, scope: str, subject: str) -> Erasure:
        """Erases what messages labelled `subject=…` say. Large ones go on in the background: see `erasure`."""
        # Sent twice it finds nothing left the second time.
        return self.send(Call("POST", at("scopes", scope, "erasures"), Erasure, {"subject": subject}, once=True))

    def erasures(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Erasure]:
        question = {"limit": limit, "cursor": cursor}
        return self.send(Call("GET", at("scopes", scope, "erasures"), Page[Erasure], question=question))

    def erasure(self, scope: str, erasure_id: str) -> Erasure:
        return self.send(Call("GET", at("scopes", scope, "erasures", erasure_id), Erasure))

"""How a claimed message is settled, by the clients and by the consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relevo.client.request import Call, at, given
from relevo.contract.claims import Claimed, Settled


def settle_call(scope: str, message: Claimed, verdict: str, options: Mapping[str, Any]) -> Call[Settled]:
    """The same verdict once more is answered as done; only a release that was carried out is not ours any more."""
    path = at("scopes", scope, "messages", message.id, verdict)
    body = {"claim_token": message.claim_token, **given(**options)}
    return Call("POST", path, Settled, body, safe=verdict != "release")

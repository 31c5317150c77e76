"""What the methods of the client send, without a server: each method called once, and the calls it would have made."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from relevo.client import AsyncClient, Claimed
from relevo.client.request import Call

NOT_CALLS = {"close", "consume", "events", "ready", "send"}
"""Methods that do not send one call and read its answer."""

CLAIMED = Claimed(
    id="~",
    queue="~",
    claim_token="~",
    claim_until=0,
    attempts=1,
    reclaims=0,
    message_type="~",
    priority_tier="normal",
    priority_score=0,
    labels={},
    content_type="~",
    body=None,
    correlation_id="~",
    causation_id=None,
    parent_id=None,
    deadline=None,
    created_at=0,
)

_FILLERS: dict[str, object] = {
    "Mapping[str, Any]": {"name": "~"},
    "Claimed": CLAIMED,
    "bool": False,
    "int": 1,
    "float": 1.0,
    "Any": 1,
    "str": "~",
}


class _Recorder(AsyncClient):
    """Keeps calls instead of sending them."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9", key="rlv_x")
        self.sent: list[Call[Any]] = []

    async def send(self, call: Call[Any]) -> Any:
        self.sent.append(call)


def methods() -> list[str]:
    """The public methods of the client."""
    return [name for name, _ in inspect.getmembers(AsyncClient, inspect.isfunction) if not name.startswith("_")]


async def recorded() -> dict[str, list[Call[Any]]]:
    """The calls by the name of their method; where it has a verdict to choose, one call for each."""
    found: dict[str, list[Call[Any]]] = {}
    for name in methods():
        if name not in NOT_CALLS:
            async with _Recorder() as client:
                method = getattr(client, name)
                for given in _arguments(inspect.signature(method).parameters.values()):
                    await method(**given)
                found[name] = client.sent
    return found


def _arguments(parameters: Any) -> Iterator[dict[str, object]]:
    needed = {
        each.name: str(each.annotation).removesuffix(" | None")
        for each in parameters
        if (each.default is each.empty or each.name == "reason") and each.kind != each.VAR_KEYWORD
    }
    for verdict in re.findall(r"\w+", needed.get("verdict", "").removeprefix("Literal")) or [""]:
        yield {name: verdict if name == "verdict" else _FILLERS.get(kind, ()) for name, kind in needed.items()}


def address(call: Call[Any]) -> str:
    """Method and path, with `{}` for every name in it."""
    return f"{call.method} {call.path.replace('~', '{}')}"

"""What a message is found by: its attributes that are not at their defaults, each as one number.

A number may stand for two attributes, and what it says may be over (a dead letter that was replayed): whoever finds a message
by one looks at its row as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from relevo.work.store.tables import STANDINGS, archive, messages

Name = Literal[
    "message_type",
    "source_type",
    "source_id",
    "correlation_id",
    "parent_id",
    "state",
    "origin_queue_id",
    "idempotency_key",
    "error_type",
]

_ALONE: tuple[Name, ...] = ("source_type", "source_id", "parent_id", "origin_queue_id")
"""Attributes that a column holds, and most messages have not."""
_KNOWN = 65_536
USUAL_TYPE = "message"
FOUND_BY_STATE = frozenset({*STANDINGS, "delayed"})
"""States that few messages are in. Of the others most are."""
_READ = ("id", "scope_id", "message_type", "correlation_id", "idempotency_key", "error", *_ALONE)
LIVE_COLUMNS = tuple(messages.c[name] for name in (*_READ, "standing", "visible_at"))
ARCHIVE_COLUMNS = tuple(archive.c[name] for name in (*_READ, "state"))


class _Error(msgspec.Struct):
    type: str | None = None


_error = msgspec.json.Decoder(_Error)


@lru_cache(maxsize=_KNOWN)
def attribute(name: Name, value: str) -> int:
    """The number of an attribute: 60 bits of its name and value, which every database takes for a number of its own.

    >>> attribute("message_type", "invoice") < 2**60, attribute("message_type", "a") == attribute("source_id", "a")
    (True, False)
    """
    return int.from_bytes(blake2b(f"{name}={value}".encode(), digest_size=8).digest(), "big") >> 4


def attributes_of(row: Mapping[Any, Any]) -> set[int]:
    """The attributes of a message, whose row is of the live table or of the archive.

    >>> plain = dict.fromkeys(_READ) | {"id": "1", "scope_id": 7, "message_type": "message", "state": "pending"}
    >>> attributes_of(plain)
    set()
    >>> attributes_of(plain | {"state": "failed"}) == {attribute("state", "failed")}
    True
    """
    found: set[int] = set()
    if row["message_type"] != USUAL_TYPE:
        found.add(attribute("message_type", row["message_type"]))
    if (correlation := row["correlation_id"]) is not None and correlation != row["id"]:
        found.add(attribute("correlation_id", correlation))
    for name in _ALONE:
        if (value := row[name]) is not None:
            found.add(attribute(name, str(value)))
    if row["idempotency_key"] is not None and row["origin_queue_id"] is not None:
        found.add(attribute("idempotency_key", row["idempotency_key"]))  # else its queue has it among its keys
    if (state := _state(row)) in FOUND_BY_STATE:
        found.add(attribute("state", state))
    if row["error"] is not None and (kind := _error.decode(row["error"]).type) is not None:
        found.add(attribute("error_type", kind))
    return found


def _state(row: Mapping[Any, Any]) -> str:
    """As far as messages are found by it."""
    if "state" in row:
        return row["state"]
    return row["standing"] or ("delayed" if row["visible_at"] is not None else "")


def stale_of(row: Mapping[Any, Any]) -> set[int]:
    """What may be said of a message besides: the states that it was in, and that it died in the queue to which it came back."""
    states = {attribute("state", state) for state in FOUND_BY_STATE}
    return {*states, attribute("origin_queue_id", str(row["queue_id"]))}

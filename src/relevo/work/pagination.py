"""One page of a listing, and the cursor that leads to the next. Cursors say which listing they belong to."""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

import msgspec

from relevo.errors import BadCursor

T = TypeVar("T")

LONGEST = 500
"""The most a page may hold."""


def cursor_at(listing: str, place: int | str) -> str:
    """An opaque cursor.

    >>> place_of("audit", cursor_at("audit", 17))
    17
    """
    return base64.urlsafe_b64encode(msgspec.json.encode([listing, place])).decode().rstrip("=")


def place_of(listing: str, cursor: str) -> int | str:
    """Where a cursor leads; refuses what another listing, or nobody, gave out."""
    if cursor.isascii() and len(cursor) <= 200:
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            kind, place = msgspec.json.decode(
                base64.b64decode(padded, altchars=b"-_", validate=True), type=tuple[str, int | str]
            )
            if kind == listing:
                return place
        except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError):
            pass
    raise BadCursor(cursor=cursor[:200])


def number_of(listing: str, cursor: str | None, *, default: int) -> int:
    """The place of a listing that is in the order of a number."""
    if cursor is None:
        return default
    place = place_of(listing, cursor)
    if not isinstance(place, int) or not 0 <= place < 2**63:
        raise BadCursor(cursor=cursor[:200])
    return place


def text_of(listing: str, cursor: str | None, *, default: str) -> str:
    """The place of a listing that is in the order of an id or a slug."""
    if cursor is None:
        return default
    place = place_of(listing, cursor)
    if not isinstance(place, str) or not place.isascii() or len(place) > 100 or "\0" in place:
        raise BadCursor(cursor=cursor[:200])
    return place

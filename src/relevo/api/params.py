"""What may be asked in an address: pages, filters, moments. Everything else about a request is in its body."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Annotated, TypedDict

from fastapi import Depends, Path, Query
from pydantic import AfterValidator

from relevo.contract.fields import ANY_QUEUE, LAST_MS, PLAIN
from relevo.errors import InvalidInput
from relevo.wire.ids import require_id
from relevo.work.pagination import LONGEST, LONGEST_CURSOR

_LONGEST_ID = 100  # an id has 26 characters: what is longer, or no id at all, is answered with 404

ScopeSlug = Annotated[str, Path(description="slug of the scope", max_length=63)]
QueueSlug = Annotated[str, Path(description="slug of the queue", max_length=63)]


def _id(what: str) -> AfterValidator:
    """An id in an address."""
    return AfterValidator(partial(require_id, what))


MessageKey = Annotated[str, Path(description="id of the message", max_length=_LONGEST_ID), _id("message")]
ReplayKey = Annotated[str, Path(description="id of the replay", max_length=_LONGEST_ID), _id("replay")]
ReviewKey = Annotated[str, Path(description="id of the review", max_length=_LONGEST_ID), _id("review")]
WebhookKey = Annotated[str, Path(description="id of the webhook", max_length=_LONGEST_ID), _id("webhook")]
DeliveryKey = Annotated[str, Path(description="id of the delivery", max_length=_LONGEST_ID), _id("delivery")]
ErasureKey = Annotated[str, Path(description="id of the erasure", max_length=_LONGEST_ID), _id("erasure")]
GrantKey = Annotated[str, Path(description="id of the grant", max_length=_LONGEST_ID), _id("grant")]
KeyKey = Annotated[str, Path(description="id of the key", max_length=_LONGEST_ID), _id("key")]

Version = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="the latest when none is named")]
Limit = Annotated[int, Query(ge=1, le=LONGEST, description="how many at most")]
Cursor = Annotated[str | None, Query(max_length=LONGEST_CURSOR, description="`meta.next_cursor` of the page before")]


class Paging(TypedDict):
    """Which page of a listing is wanted."""

    limit: int
    cursor: str | None


async def _paging(limit: Limit = 100, cursor: Cursor = None) -> Paging:
    return {"limit": limit, "cursor": cursor}


Paged = Annotated[Paging, Depends(_paging)]
"""What every listing takes."""
QueueFilter = Annotated[str | None, Query(alias="queue", pattern=ANY_QUEUE, max_length=63)]
ScopeFilter = Annotated[str | None, Query(alias="scope", pattern=ANY_QUEUE, max_length=63)]
TextFilter = Annotated[str | None, Query(max_length=200, pattern=PLAIN)]
LabelFilter = Annotated[
    list[str] | None, Query(alias="label", max_length=20, description="`name=value`; all must match; may be repeated")
]
MomentFilter = Annotated[
    str | None, Query(max_length=40, pattern=r"^[0-9TZtz:.+ -]*$", description="RFC 3339, or milliseconds since 1970")
]
DayFilter = Annotated[date | None, Query(description="a day, as in 2026-11-15; UTC")]


def moment_ms(text: str | None, name: str) -> int | None:
    """A moment of an address in milliseconds.

    >>> moment_ms("1970-01-01T00:00:01Z", "since"), moment_ms("1000", "since"), moment_ms(None, "since")
    (1000, 1000, None)
    """
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return min(int(text), LAST_MS)
    try:
        # A plus sign that nobody escaped arrives as a space.
        moment = datetime.fromisoformat(
            text.strip().replace(" ", "+", 1) if text.count(" ") == 1 and "T" in text else text
        )
    except ValueError:
        reason = f"{text!r} is not a moment; write RFC 3339 (2026-11-15T09:00:00Z) or milliseconds since 1970"
        raise InvalidInput(where=name, reason=reason) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    try:
        return min(max(int(moment.timestamp() * 1000), 0), LAST_MS)
    except (OverflowError, ValueError):
        return 0


class Period(TypedDict):
    """From when on and until when, in milliseconds."""

    since: int | None
    until: int | None


async def _period(since: MomentFilter = None, until: MomentFilter = None) -> Period:
    return {"since": moment_ms(since, "since"), "until": moment_ms(until, "until")}


Within = Annotated[Period, Depends(_period)]
"""What every listing of things with a moment takes."""


def labels_in(given: Sequence[str] | None) -> dict[str, str]:
    """`["subject=42"]` as a dict; what has no `=` is refused."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        plain = text.isprintable() and len(name) <= 100 and len(value) <= 200
        if not equals or not name or not plain:
            raise InvalidInput(where="label", reason=f"{text[:100]!r} is not a label; write name=value")
        found[name] = value
    return found

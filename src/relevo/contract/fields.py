"""The kinds of values that fields hold, with their limits, and how a field is described."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

SLUG = r"^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$"
ANY_QUEUE = r"^_?[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$"
"""Also the queues that a scope has by itself, such as `_dead_letter`."""
ID = r"^[0-9A-HJKMNP-TV-Z]{26}$"
PLAIN = r"^[^\x00-\x1f\x7f]*$"
LONGEST_S = 315_360_000  # ten years
LAST_MS = 253_402_300_799_999  # the year 9999


def about(text: str) -> Meta:
    """What the document says about a field."""
    return Meta(description=text)


def one_of(literal: Any) -> Meta:
    """The values that a field of an answer has today. A newer server may send others: older clients read them all the same.

    >>> from typing import Literal
    >>> one_of(Literal["active", "paused"]).extra_json_schema
    {'enum': ['active', 'paused']}
    """
    return Meta(extra_json_schema={"enum": list(get_args(literal))})


class RequestBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is sent. A field that is not known here is an error: nobody's wish is dropped in silence."""


MANY = Meta(min_length=1, max_length=1000, description="Up to 1,000, in their order; each has its own outcome.")
"""Of the items of a batch. What is answered is a list of outcomes in the same order, with a `refusal` where there is one."""

Slug = Annotated[str, Meta(pattern=SLUG, max_length=63)]
AnyQueue = Annotated[str, Meta(pattern=ANY_QUEUE, max_length=63)]
Title = Annotated[str, Meta(max_length=200, pattern=PLAIN)]
Prose = Annotated[str, Meta(max_length=10_000, pattern=r"^[^\x00]*$")]
Word = Annotated[str, Meta(min_length=1, max_length=200, pattern=PLAIN)]
ShortWord = Annotated[str, Meta(min_length=1, max_length=100, pattern=PLAIN)]
MessageId = Annotated[str, Meta(pattern=ID, min_length=26, max_length=26)]
Token = Annotated[str, Meta(pattern=r"^[0-9A-Za-z_-]{1,40}$", min_length=1, max_length=40)]
Seconds = Annotated[int, Meta(ge=1, le=LONGEST_S)]
Moment = (
    Annotated[int, Meta(ge=0, le=LAST_MS, description="milliseconds since 1970")]
    | Annotated[datetime, Meta(tz=True, description="RFC 3339")]
)
MaybeMoment = Moment | None
Labels = Annotated[dict[ShortWord, Annotated[str, Meta(max_length=200, pattern=PLAIN)]], Meta(max_length=50)]
Pause = Annotated[float, Meta(ge=0, le=2_147_483)]
VersionNumber = Annotated[int, Meta(ge=1, le=2**31 - 1)]

CreatedAt = Annotated[int, about("When it was created.")]
UpdatedAt = Annotated[int, about("When it was last changed.")]
CreatedBy = Annotated[str, about("Who created it: `key:<id>`, `agent:<name>`, or `cli`.")]


def ms_of(moment: int | datetime | None) -> int | None:
    """A moment as whole milliseconds since 1970."""
    return int(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment

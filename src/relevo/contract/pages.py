"""Pages of listings, and what goes with every answer."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec

from relevo.contract.fields import about

T = TypeVar("T")


class Meta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What goes with every answer."""

    request_id: Annotated[str, about("The id of the request, as logs have it; yours if you sent `X-Request-Id`.")]
    next_cursor: Annotated[str | None, about("Pass it as `cursor` for the next page. Absent on the last page.")] = None
    search_behind_s: Annotated[
        float | None,
        about(
            "Of a search: for so many seconds messages were published that the search table does not know yet. They are "
            "found all the same; many of them make it slower."
        ),
    ] = None


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a listing; pass `next_cursor` on for the next, None at the end."""

    items: list[T]
    next_cursor: str | None = None
    behind_s: float | None = None
    """Of a search: how far the search table is behind. What it does not know yet was looked for elsewhere."""

"""How pages are written: templates that escape everything, times that people read, and headers that let nothing else in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""No script runs, nothing comes from elsewhere, nobody frames it, and no copy stays in a cache."""

_EXCERPT = 10_000
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


class Pages:
    """Renders templates of this package."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._templates = Environment(
            loader=PackageLoader("relevo.console", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        own: dict[str, Callable[..., str]] = {"moment": moment, "iso": iso, "span": self._from_now}
        own |= {"pretty": pretty, "excerpt": excerpt}
        self._templates.filters.update(own)

    def _from_now(self, ms: int) -> str:
        return span(ms - self._now_ms())

    def show(self, template: str, *, status: int = 200, **values: Any) -> Response:
        text = self._templates.get_template(f"{template}.html").render({"now": self._now_ms(), "tab": None, **values})
        return Response(text, status, headers=HEADERS, media_type="text/html; charset=utf-8")


def moment(ms: int) -> str:
    """A moment for people.

    >>> moment(0)
    '1970-01-01 00:00 UTC'
    """
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def iso(ms: int) -> str:
    """A moment for programs.

    >>> iso(0)
    '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def span(ms: int) -> str:
    """How far away something is.

    >>> span(90 * 60_000), span(-30_000), span(-3 * 86_400_000)
    ('in 1 h 30 min', 'just now', '3 days ago')
    """
    seconds = abs(ms) // 1000
    if seconds < _MINUTE:
        return "in less than a minute" if ms > 0 else "just now"
    if seconds < _HOUR:
        told = f"{seconds // _MINUTE} min"
    elif seconds < _DAY:
        minutes = seconds % _HOUR // _MINUTE
        told = f"{seconds // _HOUR} h {minutes} min" if minutes else f"{seconds // _HOUR} h"
    else:
        days = seconds // _DAY
        told = f"{days} day{'' if days == 1 else 's'}"
    return f"in {told}" if ms > 0 else f"{told} ago"


def pretty(body: Any) -> str:
    """JSON over several lines; bytes are JSON already.

    >>> pretty(b'{"a":1}')
    '{\\n  "a": 1\\n}'
    """
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return msgspec.json.format(raw, indent=2).decode()


def excerpt(body: Any) -> str:
    """As `pretty`, but no more than a page of a list can carry."""
    text = pretty(body)
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"

"""Times as people type them: "90s", "2h", or a date."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from relevo.errors import BadArgument

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_REMEDY = 'Write "500ms", "90s", "15m", "2h" or "3d".'


def span_ms(option: str, text: str) -> int:
    """A length of time in milliseconds.

    >>> span_ms("--delay", "1.5s")
    1500
    """
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise BadArgument(argument=option, value=text, reason="not a length of time", remedy=_REMEDY)
    return int(float(found[1]) * _UNITS[found[2]])


def instant_ms(option: str, text: str) -> int:
    """An instant in epoch milliseconds: a date in ISO form (UTC when it names no zone), or a length of time ago.

    >>> instant_ms("--since", "2026-01-01T00:00:00Z")
    1767225600000
    """
    if _SPAN.fullmatch(text.strip()):
        return int(time.time() * 1000) - span_ms(option, text)
    return date_ms(option, text, or_write=_REMEDY)


def date_ms(option: str, text: str, *, or_write: str = "") -> int:
    return int(date(option, text, or_write=or_write).timestamp() * 1000)


def date(option: str, text: str, *, or_write: str = "") -> datetime:
    """A date in ISO form, UTC when it names no zone. `or_write` tells what else the option takes."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        remedy = f"Write a date such as 2026-01-01 or 2026-01-01T08:00:00Z. {or_write}".strip()
        raise BadArgument(argument=option, value=text, reason="not a time", remedy=remedy) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

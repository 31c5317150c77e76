"""Data as people type it: JSON, and what to do when it is not."""

from __future__ import annotations

import json
from typing import Any

from relevo.errors import BadArgument


def parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        remedy = 'Quote it for the shell, and put text into double quotes: \'{"to": "ada"}\' or \'"ada"\'.'
        raise BadArgument(argument=what, value=text[:80], reason=f"not JSON ({error})", remedy=remedy) from None

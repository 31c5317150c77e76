"""Data as people type it: JSON, and what to do when it is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from relevo.errors import BadArgument


def read_json(text: str, what: str) -> Any:
    """What `text` says; `what` names the argument in a complaint."""
    try:
        return json.loads(text)
    except ValueError as error:
        remedy = 'Quote it for the shell, and put text into double quotes: \'{"to": "ada"}\' or \'"ada"\'.'
        raise BadArgument(argument=what, value=text[:80], reason=f"not JSON ({error})", remedy=remedy) from None


def read_json_file(file: Path) -> Any:
    """What a file says, or stdin when it is called `-`."""
    text = sys.stdin.read() if str(file) == "-" else file.read_text()
    return read_json(text, str(file))

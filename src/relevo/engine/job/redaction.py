"""What must not be written down: the passwords of URLs."""

from __future__ import annotations

import re

HIDDEN = "***"

_PASSWORD = re.compile(r"(?<=://)([^\s:/@]*):[^\s@/]+(?=@)")


def hide_passwords(text: str) -> str:
    """The text without passwords of URLs.

    >>> hide_passwords("rediss://:s3cr3t@db:6380/0 is away")
    'rediss://:***@db:6380/0 is away'
    """
    return _PASSWORD.sub(rf"\1:{HIDDEN}", text) if "://" in text else text

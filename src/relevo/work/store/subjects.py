"""Data subjects: the label that names one, and the digest by which an erasure is known without saying whom it was about."""

from __future__ import annotations

import hashlib

LABEL = "subject"


def digest_of(subject: str) -> str:
    """By which an erasure is known without saying whom it was about.

    >>> digest_of("customer-17")[:12]
    '8696e331fc06'
    """
    return hashlib.sha256(b"relevo-subject:" + subject.encode()).hexdigest()

"""How a receiver knows that an event is ours and new: HMAC-SHA256 over the time and the body, in one header."""

from __future__ import annotations

import hashlib
import hmac

from relevo.errors import BadSignature

HEADER = "Relevo-Signature"
TOLERANCE_S = 300


def sign(body: bytes, secrets: list[str], at_s: int) -> str:
    """The header's value. During a rotation there are two secrets and so two signatures; one that fits is enough.

    >>> sign(b"{}", ["whsec_1"], 1_700_000_000)[:30]
    't=1700000000,v1=c8cf6ed9fd9120'
    """
    return ",".join([f"t={at_s}", *(f"v1={_mac(body, secret, at_s)}" for secret in secrets)])


def verify(header: str, body: bytes, secret: str, now_s: int, *, tolerance_s: int = TOLERANCE_S) -> None:
    """Raises `BadSignature` when the event is not ours, or so old that it may be somebody's replay.

    >>> verify(sign(b"{}", ["old", "new"], 100), b"{}", "new", 130)
    """
    parts = [part.partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name.strip() == "t"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdecimal()):
        raise BadSignature(reason="it has no time")
    at_s = int(times[0])
    given = [value.strip() for name, _, value in parts if name.strip() == "v1"]
    wanted = _mac(body, secret, at_s)
    if not any(hmac.compare_digest(wanted.encode(), each.encode(errors="replace")) for each in given):
        raise BadSignature(reason="it does not fit the body and the secret")
    if abs(now_s - at_s) > tolerance_s:
        raise BadSignature(reason=f"it was made {now_s - at_s} s ago")


def _mac(body: bytes, secret: str, at_s: int) -> str:
    return hmac.new(secret.encode(), b"%d." % at_s + body, hashlib.sha256).hexdigest()

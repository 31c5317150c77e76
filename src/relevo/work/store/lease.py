"""A lease: what one claim holds, and until when. Written once, beside the messages, which a claim does not touch.

A lease names each message it holds and, from its second claim on, which claim it is: `claim_no` in the message's row counts the
claims that ended without the message's end. So a lease holds a message for as long as that is neither finished nor counted
on, and a settle needs no lock but the one on the message's own row. The lease's row goes when all it held is settled, or when
it has run out; one that is left behind holds nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode
_ID = 26


class Lease(NamedTuple):
    """One claim. `claims` says of each message which of its claims this is."""

    token: str
    scope_id: int
    queue_id: int
    claimed_by: str
    actor: str
    claimed_at: int
    until: int
    claims: Mapping[str, int]

    @property
    def row(self) -> tuple[Any, ...]:
        """In the order of the table's columns."""
        return (*self[:7], _encode([holding(*each) for each in self.claims.items()]).decode(), self.until)

    @staticmethod
    def of_row(row: Sequence[Any]) -> Lease:
        *head, held = row[:8]
        return Lease._make((*head, {each[:_ID]: int(each[_ID:] or 0) for each in _decode(held)}))


def new_token(now_ms: int) -> str:
    """A token for a claim: 60 random bits behind the time, which keeps the table of leases in the order of their making.

    >>> len(new_token(1_700_000_000_000)), new_token(1_700_000_000_000)[:11]
    (26, '18bcfe56800')
    """
    return f"{now_ms:011x}{secrets.token_hex(8)[1:]}"


def holding(message_id: str, claim_no: int) -> str:
    """How a lease names a message.

    >>> holding("01J9", 0), holding("01J9", 2)
    ('01J9', '01J92')
    """
    return f"{message_id}{claim_no}" if claim_no else message_id

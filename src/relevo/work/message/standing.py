"""What a message's row does not say while it is claimed: who has it. That stands in the lease, see store/lease.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.work.message.history import history_line
from relevo.work.message.transition import CLAIM
from relevo.work.store.lease import Lease, holding
from relevo.work.store.tables import leases

_AT_ONCE = 50


def claimed_line(lease: Lease) -> str:
    """The line of history of a claim, which is written with what ends it."""
    return history_line(lease.claimed_at, CLAIM.history, lease.actor, lease.claimed_by)


async def with_claims(connection: AsyncConnection, rows: Sequence[Mapping[Any, Any]]) -> list[dict[str, Any]]:
    """Rows of `live`, those that are claimed with their claim. A message that a stream queue has says so itself."""
    claimed = {row["id"]: row["claim_no"] for row in rows if row["state"] == "claimed" and row["claimed_by"] is None}
    held_by = await leases_holding(connection, claimed) if claimed else {}
    return [_with_claim(row, held_by[row["id"]]) if row["id"] in held_by else dict(row) for row in rows]


async def leases_holding(connection: AsyncConnection, claims: Mapping[str, int]) -> dict[str, Lease]:
    """The leases that hold these messages, each for the claim with this number."""
    found: dict[str, Lease] = {}
    keys = [holding(*each) for each in claims.items()]
    for at in range(0, len(keys), _AT_ONCE):
        named = or_(*(leases.c.held.contains(f'"{key}"') for key in keys[at : at + _AT_ONCE]))
        for row in await connection.execute(select(leases).where(named)):
            lease = Lease.of_row(row)
            found |= {each: lease for each, number in lease.claims.items() if claims.get(each) == number}
    return found


def _with_claim(row: Mapping[Any, Any], lease: Lease) -> dict[str, Any]:
    shown = dict(row) | {"claimed_by": lease.claimed_by, "claimed_at": lease.claimed_at}
    shown["updated_at"] = max(row["updated_at"], lease.claimed_at)
    if row["claim_until"] is None:
        shown["claim_until"] = lease.until
        if "trail" in row:
            shown["trail"] = row["trail"] + claimed_line(lease)
    return shown

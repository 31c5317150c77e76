"""Messages that are worked on as jobs of a stream queue.

Such a message is claimed by `stream:<queue>` for as long as it takes, so that nobody else works on it. What the job is stands
in a row of `stream_jobs`, written with the claim: the agent `stream_bridge` adds the job, at least once, under an id that
belongs to this one send, and brings its outcome back. A message that is sent again (a retry, a replay) has a job of a new id,
because a stream queue remembers ids for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select, update

from relevo.work.store.tables import stream_jobs
from relevo.work.store.transactions import SqlUnitOfWork

FOREVER = 2**53 - 1
"""The end of such a claim: its worker is known to the stream queue, which looks after it."""


class StreamTarget(NamedTuple):
    """A stream queue, and the name of the job there; None for the message's type."""

    queue: str
    job_name: str | None


def claimant(stream_queue: str) -> str:
    return f"stream:{stream_queue}"


def job_id_of(message_id: str, sends: int) -> str:
    """The first job of a message has the message's id.

    >>> job_id_of("01J9", 1), job_id_of("01J9", 2)
    ('01J9', '01J9.2')
    """
    return message_id if sends == 1 else f"{message_id}.{sends}"


def claim_columns(target: StreamTarget, now: int) -> dict[str, Any]:
    """What of a message's row says that it is with a stream queue; no lease does."""
    return {
        "claim_until": FOREVER,
        "claimed_by": claimant(target.queue),
        "claimed_at": now,
        "visible_at": None,
    }


def new_row(message_id: str, target: StreamTarget, message_type: str, now: int) -> dict[str, Any]:
    return {
        "message_id": message_id,
        "stream_queue": target.queue,
        "job_name": target.job_name or message_type,
        "state": "waiting",
        "job_id": message_id,
        "sends": 1,
        "send_at": now,
        "looked_at": now,
        "created_at": now,
    }


async def send_again(
    transaction: SqlUnitOfWork, message_ids: Sequence[str], *, send_at: int | None = None
) -> dict[str, dict[str, Any]]:
    """Has those of these messages, whose rows are held, that were jobs before be jobs once more; the new claims of those."""
    s = stream_jobs.c
    query = select(s.message_id, s.stream_queue, s.job_name, s.sends).where(s.message_id.in_(message_ids))
    rows = (await transaction.connection.execute(query)).all()
    if not rows:
        return {}
    now = transaction.now
    again = [
        {"_id": row.message_id, "_job": job_id_of(row.message_id, row.sends + 1), "_sends": row.sends + 1}
        for row in rows
    ]
    await transaction.connection.execute(
        update(stream_jobs)
        .where(s.message_id == bindparam("_id"))
        .values(
            state="waiting", job_id=bindparam("_job"), sends=bindparam("_sends"), send_at=send_at or now, looked_at=now
        ),
        again,
    )
    return {row.message_id: claim_columns(StreamTarget(row.stream_queue, row.job_name), now) for row in rows}

"""What an erasure takes out of Redis: the jobs that its messages became, and the events that tell why something failed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from relevo.work.store.database import Database
from relevo.work.store.outbox import stream_name
from relevo.work.store.tables import queues, stream_jobs
from relevo.work.streams.stream_jobs import job_id_of
from relevo.work.streams.stream_queues import StreamQueues
from relevo.work.tenancy.queues import Queues


async def forget_in_streams(
    database: Database, streams: StreamQueues, lookup: Queues, scope_id: int, ids: Sequence[str]
) -> bool:
    """Removes the jobs of these messages from stream queues, their results and dead letters, and the events with their
    reasons. False when a worker still has one in its hands: it is told to stop, and whoever asked comes again.

    Asked again it does no harm. Messages that are cancelled are not sent again, so this comes after the rows were blanked.
    """
    if not streams.there or not ids:
        return True
    async with database.connect() as connection:
        query = select(stream_jobs).where(stream_jobs.c.message_id.in_(ids))
        rows = (await connection.execute(query)).mappings().all()
        homes = list((await connection.execute(select(queues.c.id).where(queues.c.scope_id == scope_id))).scalars())
    jobs: dict[str, list[str]] = {}
    for row in rows:
        sent = [job_id_of(row["message_id"], send) for send in range(1, row["sends"] + 1)]
        jobs.setdefault(row["stream_queue"], []).extend(sent)
    idle = True
    for name, job_ids in jobs.items():
        queue = streams.get(name)
        for job_id in job_ids:
            removal = await queue.maintenance.remove(job_id)
            if removal.running:
                await queue.cancel(job_id)
                idle = False
        await streams.forget_reasons(name, frozenset(job_ids))
    for queue_id in homes:
        home = await lookup.by_id(queue_id)
        await streams.forget_reasons(stream_name(home.tenant, home.scope, home.slug), frozenset(ids))
    return idle

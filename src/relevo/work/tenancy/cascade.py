"""What goes with a queue or a scope that is deleted: whatever people have said about it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.work.store.tables import (
    erasures,
    grants,
    queue_schemas,
    review_patterns,
    reviews,
    routings,
    rules,
    schemas,
    stream_watches,
    trusts,
    webhook_deliveries,
    webhooks,
)


async def delete_of_queues(connection: AsyncConnection, queue_ids: Sequence[int]) -> None:
    await connection.execute(delete(grants).where(grants.c.queue_id.in_(queue_ids)))
    await connection.execute(delete(queue_schemas).where(queue_schemas.c.queue_id.in_(queue_ids)))


async def delete_of_scope(connection: AsyncConnection, scope_id: int) -> None:
    """All but the list of erased messages: the lake may not have read it yet."""
    told = select(webhooks.c.id).where(webhooks.c.scope_id == scope_id)
    await connection.execute(delete(webhook_deliveries).where(webhook_deliveries.c.webhook_id.in_(told)))
    await connection.execute(
        delete(trusts).where(or_(trusts.c.scope_id == scope_id, trusts.c.trusted_scope_id == scope_id))
    )
    for table in (*(webhooks, grants, rules, routings, reviews, review_patterns, schemas, stream_watches, erasures),):
        await connection.execute(delete(table).where(table.c.scope_id == scope_id))

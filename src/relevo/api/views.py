"""What callers see of scopes and queues: the records without our own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from relevo.contract.queues import Queue, QueueChange
from relevo.contract.scopes import Scope, ScopeChange
from relevo.work.queue_record import QueueRecord
from relevo.work.store.counters import Depth, depths_of
from relevo.work.tenancy.scopes import Scope as ScopeRecord
from relevo.work.work_queues import WorkQueues


def scope_out(scope: ScopeRecord) -> Scope:
    return Scope(**{name: getattr(scope, name) for name in Scope.__struct_fields__})


def changes_in(body: ScopeChange | QueueChange) -> dict[str, Any]:
    """The fields that were sent."""
    return {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}


async def queues_out(work_queues: WorkQueues, records: Sequence[QueueRecord]) -> list[Queue]:
    """Queues with their depths, asked of the database in one go."""
    depths = await depths_of(work_queues.database, [record.id for record in records])
    return [_queue_out(record, depths.get(record.id, Depth())) for record in records]


def _queue_out(record: QueueRecord, depth: Depth) -> Queue:
    counted = {f"depth_{state}": count for state, count in depth._asdict().items()}
    fields: dict[str, Any] = {
        name: counted[name] if name in counted else getattr(record, name) for name in Queue.__struct_fields__
    }
    return Queue(**fields)

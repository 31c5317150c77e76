"""What callers see of scopes and queues: the records without our own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from relevo.contract.queues import Queue, QueueChange, QueueIn
from relevo.contract.scopes import Scope, ScopeChange
from relevo.work.queue_record import QueueRecord, QueueSettings
from relevo.work.store.counters import Depth, depths_of
from relevo.work.tenancy.scopes import Scope as ScopeRecord
from relevo.work.work_queues import WorkQueues


def scope_out(scope: ScopeRecord) -> Scope:
    return Scope(**{name: getattr(scope, name) for name in Scope.__struct_fields__})


_IN_MS = {f"backoff_{part}_s": f"backoff_{part}_ms" for part in ("initial", "cap", "jitter")}
"""Settings of a queue that callers say in seconds and the database keeps in whole milliseconds."""


def settings_in(body: QueueIn) -> QueueSettings:
    """The settings of a queue to make; its slug is no setting."""
    given = _stored(msgspec.structs.asdict(body))
    return QueueSettings(**{name: given[name] for name in QueueSettings.__struct_fields__})


def changes_in(body: ScopeChange | QueueChange) -> dict[str, Any]:
    """The fields that were sent."""
    return _stored({name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET})


def _stored(given: dict[str, Any]) -> dict[str, Any]:
    return {_IN_MS.get(name, name): round(value * 1000) if name in _IN_MS else value for name, value in given.items()}


async def queues_out(work_queues: WorkQueues, records: Sequence[QueueRecord]) -> list[Queue]:
    """Queues with their depths, asked of the database in one go."""
    depths = await depths_of(work_queues.database, [record.id for record in records])
    return [_queue_out(record, depths.get(record.id, Depth())) for record in records]


def _queue_out(record: QueueRecord, depth: Depth) -> Queue:
    known: dict[str, Any] = {f"depth_{state}": count for state, count in depth._asdict().items()}
    known |= {name: getattr(record, stored) / 1000 for name, stored in _IN_MS.items()}
    return Queue(**{name: known[name] if name in known else getattr(record, name) for name in Queue.__struct_fields__})

"""`readStream` with `table=messages`: every message that changed, as it is when it is read.

A message's row changes in place and keeps no order, but every change is told in the audit, in the same transaction and with the
ids of the messages it was about. So the stream is that of the audit, with its offsets and its promise that no late commit is
missed, and a task reads the rows that the entries name. A message that changed several times between two batches is one row;
one that runs again after a crash names the same messages, perhaps in a newer state. Who keeps the row with the latest
`updated_at` of each id has the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from sqlalchemy import Connection, Table, select

from relevo.pipeline.connector.audit_stream import AuditStream, EntryRange, entries
from relevo.pipeline.connector.work_database import opened
from relevo.work.store.views import archive, audit, messages, reviews

_ULID = re.compile("(?<![0-9A-Z])[0-9A-HJKMNP-TV-Z]{26}(?![0-9A-Z])")
_AT_ONCE = 500
_TOLD = (audit.c.target, audit.c.before, audit.c.after)
"""Where an entry names messages: the first as its target, the others in what was after. A review names itself."""


class MessageChanges(AuditStream):
    """The source of one streaming query over messages."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, EntryRange):  # Spark's own stand-in for "no partitions"
            return
        with opened(self._url) as connection:
            for page in entries(connection, partition, _TOLD):
                yield from self._changed(connection, page)

    def _changed(self, connection: Connection, page: Sequence[Sequence[Any]]) -> Iterator[Any]:
        named = dict.fromkeys(found for row in page for text in row if text for found in _ULID.findall(text))
        left = list(named)
        for at in range(0, len(left), _AT_ONCE):
            some = left[at : at + _AT_ONCE]
            reviewed = select(reviews.c.message_id).where(reviews.c.id.in_(some), reviews.c.message_id.is_not(None))
            wanted = list(dict.fromkeys([*some, *connection.execute(reviewed).scalars()]))
            # First where they are before they are archived: one that moves in between is then read twice, and never missed.
            rows = [row for table in (messages, archive) for row in self._rows(connection, table, wanted)]
            if rows:
                values = zip(*rows, strict=True)
                arrays = [pa.array(each, kind.type) for each, kind in zip(values, self._schema, strict=True)]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)  # pyright: ignore[reportUnknownMemberType]

    def _rows(self, connection: Connection, table: Table, ids: list[str]) -> Sequence[Any]:
        columns: list[Any] = [table.c[name] for name in self._schema.names]
        return connection.execute(select(*columns).where(table.c.id.in_(ids)).order_by(table.c.id)).all()

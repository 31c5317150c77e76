"""What relays do with the table: hold the first rows of each queue, let go of them, take them out.

A queue's line is its rows in the order of `seq`. Whoever holds the head of a line holds the line: nobody else sends jobs of
that queue meanwhile, which is what keeps them in order. A hold is a column with a time in it, by the database's own clock, so
a relay that dies holds nothing for longer than that. Every change is an UPDATE that checks the hold again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, delete, false, func, select, true, update
from sqlalchemy.sql.elements import ColumnElement

from relevo.outbox.clock import now_ms
from relevo.outbox.entry import Entry
from relevo.outbox.table import OutboxTable

# Stores that can pass over rows another relay is just taking; the others make us wait for it, or have one writer only.
_SKIPS_LOCKED = frozenset({"postgresql", "mysql", "mariadb", "oracle"})


class Line(NamedTuple):
    """The rows of one queue that a relay holds, oldest first."""

    queue: str
    entries: list[Entry]


class Store:
    """The table, as one relay uses it. Every method is one step inside a transaction of its caller."""

    def __init__(self, table: OutboxTable, *, hold_ms: int, batch: int) -> None:
        self._table = table.table
        self._hold_ms = hold_ms
        self._batch = batch

    def due(self, connection: Connection) -> list[int]:
        """Heads of lines that nobody holds, and rows set aside whose time has come. A look only: `hold` decides."""
        c = self._table.c
        heads = select(func.min(c.seq)).where(c.set_aside == false()).group_by(c.queue)
        free = select(c.seq).where(c.seq.in_(heads), c.held_until_ms <= now_ms()).order_by(c.seq).limit(self._batch)
        aside = (
            select(c.seq)
            .where(c.set_aside == true(), c.held_until_ms <= now_ms())
            .order_by(c.held_until_ms)
            .limit(self._batch)
        )
        return [*connection.execute(free).scalars(), *connection.execute(aside).scalars()]

    def hold(self, connection: Connection, due: Sequence[int], token: str) -> list[Line]:
        """Holds these rows and, behind each head, the rest of its line up to a batch; what others were faster with is left
        out. `token` names this hold, and no other."""
        c = self._table.c
        if connection.dialect.name in _SKIPS_LOCKED:
            unlocked: Select[Any] = (
                select(c.seq).where(c.seq.in_(due), c.held_until_ms <= now_ms()).with_for_update(skip_locked=True)
            )
            due = list(connection.execute(unlocked).scalars())
        if not due or self._take(connection, due, token) == 0:
            return []
        mine = connection.execute(self._rows().where(c.held_by == token).order_by(c.seq)).all()
        lines = [Line(row.queue, [_entry(row)]) for row in mine]
        for line, row in zip(lines, mine, strict=True):
            if not row.set_aside:
                line.entries.extend(self._followers(connection, line.entries[0], token))
        return lines

    def take_out(self, connection: Connection, sent: Sequence[int]) -> None:
        """Their jobs are in Redis. Whoever holds them now: a second send would be dropped there."""
        connection.execute(delete(self._table).where(self._table.c.seq.in_(sent)))

    def let_go(self, connection: Connection, seqs: Sequence[int], token: str) -> None:
        """Gives rows back, to be taken at once."""
        c = self._table.c
        connection.execute(
            update(self._table).where(c.seq.in_(seqs), c.held_by == token).values(held_by=None, held_until_ms=0)
        )

    def put_off(self, connection: Connection, seq: int, token: str, *, wait_ms: int, error: str, aside: bool) -> None:
        """Notes a failure and the time of the next try; `aside` takes the row out of its line."""
        c = self._table.c
        values: dict[str, Any] = {
            "held_by": None,
            "held_until_ms": now_ms() + wait_ms,
            "attempts": c.attempts + 1,
            "error": error,
        }
        if aside:
            values["set_aside"] = True
        connection.execute(update(self._table).where(c.seq == seq, c.held_by == token).values(values))

    def waiting(self, connection: Connection) -> int:
        """Rows that are not sent yet."""
        return connection.execute(select(func.count()).select_from(self._table)).scalar_one()

    def _followers(self, connection: Connection, head: Entry, token: str) -> list[Entry]:
        """The rows behind a head that is ours, up to the first that another relay holds."""
        c = self._table.c
        free: ColumnElement[bool] = c.held_until_ms <= now_ms()
        behind = (
            self._rows(free.label("free"))
            .where(c.queue == head.queue, c.set_aside == false(), c.seq > head.seq)
            .order_by(c.seq)
            .limit(self._batch - 1)
        )
        following: list[Entry] = []
        for row in connection.execute(behind):
            if not row.free:
                break
            following.append(_entry(row))
        if following and self._take(connection, [each.seq for each in following], token) < len(following):
            # Another relay was here in between, at a row that became visible late. Which ones are ours is not worth asking.
            self.let_go(connection, [each.seq for each in following], token)
            return []
        return following

    def _take(self, connection: Connection, seqs: Sequence[int], token: str) -> int:
        c = self._table.c
        taken = connection.execute(
            update(self._table)
            .where(c.seq.in_(seqs), c.held_until_ms <= now_ms())
            .values(held_by=token, held_until_ms=now_ms() + self._hold_ms)
        )
        return taken.rowcount

    def _rows(self, *more: ColumnElement[Any]) -> Select[Any]:
        c = self._table.c
        return select(c.seq, c.job_id, c.queue, c.name, c.data, c.options, c.run_at_ms, c.attempts, c.set_aside, *more)


def _entry(row: Row[Any]) -> Entry:
    return Entry(row.seq, row.job_id, row.queue, row.name, bytes(row.data), row.options, row.run_at_ms, row.attempts)

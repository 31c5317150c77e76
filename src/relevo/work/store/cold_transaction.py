"""Transactions of the cold paths, written in SQLAlchemy: agents, subscriptions, replays.

The same `Transaction` as on the hot path, so that tallies, events and audit go with every change here too; only the statements
are SQLAlchemy's, because these paths ask many different things seldom, and the hot one few things often.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import Select, Table, insert
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.errors import StoreUnavailable
from relevo.work.store.audit_rows import ColdAuditRows
from relevo.work.store.counters import TALLIES
from relevo.work.store.database import in_short
from relevo.work.store.interface import Dialect, Row, Session
from relevo.work.store.tables import tallies
from relevo.work.store.unit_of_work import Transaction

if TYPE_CHECKING:
    from relevo.work.work_queues import WorkQueues

T = TypeVar("T")
AnySelect = TypeVar("AnySelect", bound=Select[*tuple[Any, ...]])

COLD_SLOT = 32_767
"""The tallies' slot of all cold paths together: they are few, and may wait for each other."""

_TRIES = 8
_CONFLICTS = frozenset({"40001", "40P01", "55P03", "1213", "1205", "1020"})
"""Deadlocks, lock waits that took too long, and snapshots that came too late: nothing was done, try again."""


class _ColdSession(ColdAuditRows):
    """What `Transaction.write` asks of a session, on a connection of SQLAlchemy's."""

    def __init__(self, connection: AsyncConnection, dialect: Dialect) -> None:
        super().__init__(connection)
        self._connection = connection
        self.dialect: Dialect = dialect

    async def insert(self, table: Table, rows: Sequence[Row], *, columns: Sequence[str] | None = None) -> None:
        names = columns or [column.name for column in table.columns]
        await self._connection.execute(insert(table), [dict(zip(names, row, strict=True)) for row in rows])

    async def add_counters(self, rows: Sequence[Row]) -> None:
        names = [column.name for column in tallies.columns]
        values = [dict(zip(names, row, strict=True)) for row in rows]
        if not values:
            return
        statement: Any
        if self.dialect == "mariadb":
            adding = mysql.insert(tallies)
            statement = adding.on_duplicate_key_update(
                {name: tallies.c[name] + adding.inserted[name] for name in TALLIES}
            )
        else:
            adding = (postgresql if self.dialect == "postgresql" else sqlite).insert(tallies)
            statement = adding.on_conflict_do_update(
                index_elements=["queue_id", "day", "slot"],
                set_={name: tallies.c[name] + adding.excluded[name] for name in TALLIES},
            )
        await self._connection.execute(statement, values)


class ColdTransaction(Transaction):
    """A transaction with SQLAlchemy's connection."""

    def __init__(self, connection: AsyncConnection, dialect: Dialect, now_ms: int) -> None:
        # Of a session, `write` uses these methods only, and nobody else is given it here.
        super().__init__(cast(Session, _ColdSession(connection, dialect)), now_ms)
        self.connection = connection
        self.dialect: Dialect = dialect

    def held(self, query: AnySelect, *, wait: bool = False) -> AnySelect:
        """The query's rows, held until the end. Rows that another transaction holds are passed over unless we `wait`; on
        SQLite there is no other."""
        return query if self.dialect == "sqlite" else query.with_for_update(skip_locked=not wait)


async def transact(work_queues: WorkQueues, work: Callable[[ColdTransaction], Awaitable[T]]) -> T:
    """Runs `work` in one transaction, writes what it collected, commits, and tells the order index and waiting claims.
    `work` may be run again after a deadlock: it must keep nothing but what it returns."""
    for tried in range(1, _TRIES + 1):
        try:
            with work_queues.database.chains.linking() as linking:
                async with work_queues.database.begin() as connection:
                    transaction = ColdTransaction(connection, work_queues.database.dialect, work_queues.now_ms())
                    done = await work(transaction)
                    await transaction.write(COLD_SLOT, linking)
                    transaction.passed("written")
        except IntegrityError:
            raise  # a name that is taken: the caller knows what it means
        except DBAPIError as error:
            if tried == _TRIES or not _is_conflict(error):
                raise StoreUnavailable(reason=in_short(error)) from error
            await asyncio.sleep(random.uniform(0.005, 0.02) * 2**tried)
        else:
            transaction.passed("committed")
            await _tell(work_queues, transaction)
            return done
    raise AssertionError("the last try returns or raises")


async def _tell(work_queues: WorkQueues, transaction: Transaction) -> None:
    if transaction.ready:
        await work_queues.ready_index.add(transaction.ready)
    wakes = Counter(ready.queue_id for ready in transaction.ready)
    wakes.update(transaction.wakes)
    if wakes:
        work_queues.long_poll.wake(wakes)


def _is_conflict(error: DBAPIError) -> bool:
    cause: Any = error.orig
    code = str(getattr(cause, "sqlstate", None) or (cause.args[0] if getattr(cause, "args", ()) else ""))
    return code in _CONFLICTS or "database is locked" in code

"""The one way to commit: a unit of work is run, what it collected is written, it is committed, and then told of.

`Transactions` hands the work SQLAlchemy's connection, for paths that ask many things seldom. `FastTransactions` hands it a
session of the driver, for paths that ask few things often; a `GroupCommit` puts many requests into one of those. Each writes
counters, events and audit rows with the change, is tried again after a deadlock, and tells of its commit in one place.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from sqlalchemy import Column, ColumnElement, RowMapping, Select, and_, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.errors import StoreUnavailable
from relevo.work.clock import Clock
from relevo.work.store.database import Database
from relevo.work.store.interface import (
    LOCKED_COLUMNS,
    Dialect,
    Disagreement,
    Driver,
    LockedDelivery,
    LockedMessage,
    MessageUpdate,
    Session,
    state_of,
)
from relevo.work.store.outage import is_fault, said
from relevo.work.store.sql_session import SqlSession
from relevo.work.store.tables import deliveries, messages, ready
from relevo.work.store.unit_of_work import UnitOfWork

T = TypeVar("T")
AnySelect = TypeVar("AnySelect", bound=Select[*tuple[Any, ...]])
AfterCommit = Callable[[UnitOfWork], Awaitable[None]]

SQL_SLOT = 32_767
"""The counters' slot of all that goes through `run`: it is little, and may wait for each other."""

_SLOTS = 64
"""Rows of counters a queue and day at most: each fast transaction under way has one of its own, and those of two processes are
seldom the same."""

_TRIES = 8
_CONFLICTS = frozenset({"40001", "40P01", "55P03", "1213", "1205", "1020"})
"""Deadlocks, lock waits that took too long, and snapshots that came too late: nothing was done, try again."""


class SqlUnitOfWork(UnitOfWork):
    """A unit of work with SQLAlchemy's connection."""

    def __init__(self, connection: AsyncConnection, dialect: Dialect, now_ms: int) -> None:
        # Of a session, `write` uses these methods only, and nobody else is given it here.
        super().__init__(cast(Session, SqlSession(connection, dialect)), now_ms)
        self.connection = connection
        self.dialect: Dialect = dialect

    def held(self, query: AnySelect, *, wait: bool = False) -> AnySelect:
        """The query's rows, held until the end. Rows that another transaction holds are passed over unless we `wait`; on
        SQLite there is no other."""
        return query if self.dialect == "sqlite" else query.with_for_update(skip_locked=not wait)

    async def lock_messages(
        self, *conditions: ColumnElement[bool], by: Sequence[Column[Any]] = (messages.c.id,), limit: int | None = None
    ) -> list[LockedMessage]:
        """Messages that meet these conditions, in the order of `by`, as `held` holds them: waiting when there is no limit."""
        query = select(*_LOCKED).where(*conditions).order_by(*by).limit(limit)
        rows = (await self.connection.execute(self.held(query, wait=limit is None))).mappings().all()
        there = await self._ready_among(rows)
        return [LockedMessage.of_columns((*row.values(), row["id"] in there)) for row in rows]

    async def lock_rows(self, *conditions: ColumnElement[bool], limit: int | None = None) -> list[dict[str, Any]]:
        """The same as whole rows of `live`, in the order of their ids; always waiting."""
        query = select(messages).where(*conditions).order_by(messages.c.id).limit(limit)
        rows = (await self.connection.execute(self.held(query, wait=True))).mappings().all()
        there = await self._ready_among(rows)
        found: list[dict[str, Any]] = []
        for row in rows:
            state = state_of(row["standing"], row["finished_at"], row["visible_at"], row["id"] in there)
            found.append({**row, "state": state, "attempts": row["attempts"] + (state == "claimed")})
        return found

    async def _ready_among(self, rows: Sequence[RowMapping]) -> set[str]:
        """Those of these messages, whose rows are held, that are ready, held there too: by a statement of its own, which sees
        what others have changed while the first one waited."""
        m, r, closed = messages.c, ready.c, ("standing", "finished_at", "visible_at")
        ids = [row["id"] for row in rows if all(row[name] is None for name in closed)]
        if not ids:
            return set()
        place = and_(r.queue_id == m.queue_id, r.sort_key == m.sort_key, r.id == m.id)
        query = select(r.id).join_from(messages, ready, place).where(m.id.in_(ids))
        return set((await self.connection.execute(self.held(query, wait=True))).scalars())

    async def update_deliveries(self, updates: Sequence[MessageUpdate]) -> None:
        """As a session's `update_messages`, of deliveries. Their lines go to the histories of their messages."""
        d, m = deliveries.c, messages.c
        alike: dict[tuple[Any, ...], list[str]] = {}
        lines: dict[str, list[str]] = {}
        for each in updates:
            assert isinstance(each.row, LockedDelivery)
            alike.setdefault((each.row.subscription_id, *each.columns.items()), []).append(each.row.id)
            if each.trail:
                lines.setdefault(each.trail, []).append(each.row.id)
        for (subscription_id, *columns), ids in alike.items():
            mine = (d.subscription_id == subscription_id, d.message_id.in_(ids))
            await self.connection.execute(update(deliveries).where(*mine).values(dict(columns)))
        if lines:  # in one order everywhere: two subscriptions that settle the same messages must not deadlock
            await self.lock_messages(m.id.in_({message_id for ids in lines.values() for message_id in ids}))
        for line, ids in lines.items():
            await self.connection.execute(update(messages).where(m.id.in_(ids)).values(trail=m.trail + line))


_LOCKED = [messages.c[name] for name in LOCKED_COLUMNS]


async def tell_nobody(_: UnitOfWork) -> None:
    """After a commit of one who works without Redis and beside nobody: the command line."""


class Transactions:
    """Runs units of work on one database. `after_commit` tells the ready index and the waiting claims."""

    def __init__(self, database: Database, now_ms: Clock, *, after_commit: AfterCommit = tell_nobody) -> None:
        self._database = database
        self._now_ms = now_ms
        self._after_commit = after_commit

    async def run(self, work: Callable[[SqlUnitOfWork], Awaitable[T]]) -> T:
        """Runs `work` in one transaction. It may be run again after a deadlock: it must keep nothing but what it returns.
        Raises what it raises, and `StoreUnavailable`; `IntegrityError` as it is: who inserts knows what it means."""
        for tried in range(1, _TRIES + 1):
            try:
                with self._database.chains.linking() as linking:
                    async with self._database.begin() as connection:
                        unit = SqlUnitOfWork(connection, self._database.dialect, self._now_ms())
                        done = await work(unit)
                        await unit.write(SQL_SLOT, linking)
                        unit.passed("written")
            except IntegrityError:
                raise
            except DBAPIError as error:
                if tried == _TRIES or not _is_conflict(error):
                    raise StoreUnavailable(reason=said(error)) from error
                await asyncio.sleep(random.uniform(0.005, 0.02) * 2**tried)
            else:
                unit.passed("committed")
                await _tell(unit, self._after_commit)
                return done
        raise AssertionError("the last try returns or raises")


class FastTransactions:
    """The same on the driver of the hot path, for work that awaits nothing but its session (store/interface.py)."""

    def __init__(self, database: Database, driver: Driver, now_ms: Clock, *, after_commit: AfterCommit) -> None:
        self._database = database
        self._driver = driver
        self._now_ms = now_ms
        self._after_commit = after_commit
        self._slots = deque(random.sample(range(_SLOTS), _SLOTS))

    async def run(self, work: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        """Runs `work` in one transaction; it may be run again after a deadlock."""
        done: list[T] = []

        async def keep(unit: UnitOfWork) -> None:
            done[:] = [await work(unit)]

        await (await self.commit(keep))()
        return done[0]

    async def commit(self, work: Callable[[UnitOfWork], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """One transaction; returns what is to be done after it, which may overlap with the next."""
        done: list[UnitOfWork] = []
        is_unsure = False

        async def run(session: Session) -> None:
            unit = UnitOfWork(session, self._now_ms(), is_unsure=is_unsure)
            await work(unit)
            await unit.write(slot, linking)
            unit.passed("written")
            done[:] = [unit]

        slot = self._slots.popleft()  # with more transactions than slots some share one, and wait for each other
        self._slots.append(slot)
        try:
            with self._database.chains.linking() as linking:
                try:
                    await self._transact(run, writing=True)
                except Disagreement:
                    is_unsure = True
                    await self._transact(run, writing=True)
        finally:
            self._slots.remove(slot)
            self._slots.appendleft(slot)
        unit = done[0]
        unit.passed("committed")
        return lambda: _tell(unit, self._after_commit)

    async def read(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Runs `work`, which changes nothing, in one transaction."""
        return await self._transact(work, writing=False)

    async def _transact(self, work: Callable[[Session], Awaitable[T]], *, writing: bool) -> T:
        try:
            done = await self._driver.transact(work)
        except StoreUnavailable as error:
            cause = error.__cause__
            if cause is not None and is_fault(cause):
                raise self._database.outage.met(cause, writing=writing) from cause
            raise
        self._database.outage.answered(writing=writing)
        return done


async def _tell(unit: UnitOfWork, after_commit: AfterCommit) -> None:
    for note in unit.on_commit:
        note()
    await after_commit(unit)


def _is_conflict(error: DBAPIError) -> bool:
    cause: Any = error.orig
    code = str(getattr(cause, "sqlstate", None) or (cause.args[0] if getattr(cause, "args", ()) else ""))
    return code in _CONFLICTS or "database is locked" in code

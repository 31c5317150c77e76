"""The hot path on MariaDB: asyncmy, rows in bulk through its binary protocol, lists as text.

MariaDB has no UPDATE ... RETURNING: rows are read with FOR UPDATE and changed by key in the same transaction. Transactions are
READ COMMITTED: a snapshot of the first statement would not show what another transaction has just committed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import asyncmy
import msgspec
from asyncmy.errors import MySQLError, OperationalError
from sqlalchemy import Table

from relevo.errors import StoreUnavailable
from relevo.work.store import session_timeouts
from relevo.work.store.audit_chain import HEAD, LINKED, Head
from relevo.work.store.database import Database
from relevo.work.store.interface import (
    NO_CLAIMS,
    ClaimedRow,
    CompletedRow,
    Completion,
    Dialect,
    KnownKey,
    LockedMessage,
    MessageUpdate,
    Phase,
    Place,
    QueuePolicy,
    Row,
    Session,
)
from relevo.work.store.lease import Lease
from relevo.work.store.outage import is_fault, said
from relevo.work.store.session_timeouts import Deadline, overdue
from relevo.work.store.statements import RARE, column_names, filled, in_bulk, labelled, statement
from relevo.work.store.tables import audit, audit_chains

T = TypeVar("T")

_TRIES = 8
_TRANSIENT = frozenset({1213, 1205, 1020})  # deadlock, a lock waited for too long, a row that changed: rolled back
_LOST = frozenset({2006, 2013})  # the server has gone away, or went in the middle of an answer
_CONNECTIONS = 16
_SETTINGS = "SESSION tx_isolation = 'READ-COMMITTED', SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')"
_STATEMENTS_KEPT = 100


_connect = cast("Callable[..., Awaitable[Any]]", asyncmy.connect)  # pyright: ignore[reportUnknownMemberType]


def _sql(name: str) -> str:
    return statement("mariadb", name)


@cache
def _insert(table: Table, columns: tuple[str, ...], ignoring: bool = False) -> str:
    places = ", ".join(["%s"] * len(columns))
    names = ", ".join(f"`{name}`" for name in columns)
    return f"INSERT {'IGNORE ' if ignoring else ''}INTO {table.name} ({names}) VALUES ({places})"  # noqa: S608 - names of ours


class MariaDbSession:
    """An open transaction on one connection."""

    dialect: Dialect = "mariadb"

    def __init__(self, connection: Any) -> None:
        self._cursor = connection.cursor()

    async def _fetch(self, sql: str, *values: Any) -> list[Any]:
        cursor = self._cursor
        await cursor.execute(
            cursor.mogrify(sql, values)
        )  # as text: lists of any length, without a plan to keep for each
        return await cursor.fetchall()

    async def fetch(self, statement: str, *values: Any) -> list[Row]:
        return await self._fetch(_sql(statement), *values)

    async def insert(self, table: Table, rows: Sequence[Row], *, columns: Sequence[str] | None = None) -> None:
        names, values = filled(column_names(table, columns), rows)  # see in_bulk
        await self._cursor.executemany(_insert(table, names), values)

    async def lock_queues(self, queue_ids: Sequence[int]) -> None:
        await self._fetch(_sql("lock_queues"), tuple(queue_ids))

    async def waiting(self, queue_id: int) -> int:
        return (await self._fetch(_sql("waiting"), queue_id))[0][0]

    async def remember_keys(self, rows: Sequence[tuple[int, str, str, str]]) -> list[KnownKey]:
        await self._cursor.executemany(_sql("remember_keys"), rows)
        if self._cursor.rowcount == len(rows):
            return []
        mine = {row[2] for row in rows}
        known = await self._fetch(_sql("known_keys"), tuple(row[:2] for row in rows))
        return [key for key in map(KnownKey.of_columns, known) if key.message_id not in mine]

    async def forget_keys(self, message_ids: Sequence[str]) -> None:
        await self._fetch(_sql("forget_keys"), tuple(message_ids))

    async def oldest_waiting(self, queue_id: int, limit: int) -> list[LockedMessage]:
        ids = tuple(row[0] for row in await self._fetch(_sql("waiting_ids"), queue_id, limit, queue_id, limit))
        rows = await self._fetch(_sql("oldest_waiting"), ids, limit) if ids else []
        return [row for row in map(LockedMessage.of_columns, rows) if row.state != "claimed"]

    async def claim_next(
        self, queue_id: int, limit: int, scope_id: int = 0, labels: Sequence[tuple[str, str]] = ()
    ) -> list[ClaimedRow]:
        if not labels:
            return await self._claimed(await self._fetch(_sql("claim_next"), queue_id, limit))
        ordered, rare = await self._rarest_first(scope_id, labels)
        wanted = [value for label in ordered for value in (scope_id, *label)]
        sql = labelled("mariadb", len(ordered), rare=rare)
        if not rare:
            return await self._taken(queue_id, await self._fetch(sql, queue_id, *wanted, limit))
        places = await self._fetch(sql, queue_id, scope_id, *ordered[0], *wanted, RARE)
        return await self._taken(queue_id, await self._lock_ready(queue_id, places, limit))

    async def _rarest_first(
        self, scope_id: int, labels: Sequence[tuple[str, str]]
    ) -> tuple[list[tuple[str, str]], bool]:
        """The labels, the one that fewest messages carry first, and whether those are few."""
        counts = {label: (await self._fetch(_sql("count_labelled"), scope_id, *label, RARE))[0][0] for label in labels}
        return sorted(counts, key=counts.__getitem__), min(counts.values()) < RARE

    async def claim_ids(self, queue_id: int, ids: Sequence[str]) -> list[ClaimedRow]:
        places = await self._fetch(_sql("places"), tuple(ids), queue_id)
        return await self._taken(queue_id, await self._lock_ready(queue_id, places, len(places)))

    async def _lock_ready(self, queue_id: int, places: Sequence[Row], limit: int) -> Sequence[Row]:
        """The first of these places that are still there, and that nobody else is just taking."""
        if not places:
            return []
        return await self._fetch(_sql("lock_ready"), msgspec.json.encode(places).decode(), queue_id, limit)

    async def _taken(self, queue_id: int, places: Sequence[Row]) -> list[ClaimedRow]:
        if places:
            await self.leave_ready([(queue_id, *place) for place in places])
        return await self._claimed(places)

    async def _claimed(self, places: Sequence[Row]) -> list[ClaimedRow]:
        if not places:
            return []
        rows = await self._fetch(_sql("claimed"), tuple(place[1] for place in places))
        return sorted(ClaimedRow(*row) for row in rows)

    async def leave_ready(self, places: Sequence[tuple[int, int, str]]) -> None:
        await self._cursor.executemany(_sql("leave_ready"), places)

    async def pending_page(self, queue_id: int, sort_key: int, message_id: str, limit: int) -> list[Place]:
        return await self._fetch(_sql("pending_page"), queue_id, sort_key, sort_key, message_id, limit)

    async def leases(self, tokens: Sequence[str]) -> list[Lease]:
        return [Lease.of_row(row) for row in await self._fetch(_sql("leases"), tuple(tokens))]

    async def drop_leases(self, tokens: Sequence[str]) -> None:
        await self._fetch(_sql("drop_leases"), tuple(tokens))

    async def shorten_lease(self, token: str, look_at: int) -> None:
        await self._fetch(_sql("shorten_lease"), look_at, token, look_at)

    async def complete(self, items: Sequence[Completion], now: int) -> list[CompletedRow]:
        wanted = {item.id: item for item in items}
        rows = await self._fetch(_sql("complete"), tuple(wanted))
        mine = [(row, item) for row in rows if (item := wanted[row[0]]).claim_no == row[5]]
        if not mine:
            return []
        settled = {(item.claim_line, item.trail, item.token, item.claimed_by, item.claimed_at) for _, item in mine}
        if len(settled) == 1 and all(item.result is None for _, item in mine):
            (of_all,) = settled
            ids = tuple(item.id for _, item in mine)
            await self._fetch(_sql("mark_completed"), mine[0][1].token, *of_all, now, now, ids)
        else:
            each = [
                (
                    *(item.result, item.token, item.claim_line, item.trail),
                    *(item.token, item.claimed_by, item.claimed_at, now, now, item.id),
                )
                for _, item in mine
            ]
            await self._cursor.executemany(*in_bulk(_sql("mark_each_completed"), each))
        return [CompletedRow._make((*row[:3], item.claimed_at, *row[3:5])) for row, item in mine]

    async def lock(
        self,
        ids: Sequence[str],
        claims: Mapping[str, int] = NO_CLAIMS,  # noqa: ARG002 - one statement asks for both
    ) -> list[LockedMessage]:
        return [LockedMessage.of_columns(row) for row in await self._fetch(_sql("lock"), tuple(ids))]

    async def policies(self, queue_ids: Sequence[int]) -> list[QueuePolicy]:
        return [QueuePolicy(*row) for row in await self._fetch(_sql("policies"), tuple(queue_ids))]

    async def update_messages(self, updates: Sequence[MessageUpdate]) -> None:
        values = [(*rest, message_id) for message_id, *rest in (update.values() for update in updates)]
        await self._cursor.executemany(*in_bulk(_sql("update_messages"), values))

    async def add_due(self, rows: Sequence[tuple[str, int, str]]) -> None:
        await self._cursor.executemany(_sql("add_due"), rows)

    async def add_counters(self, rows: Sequence[Row]) -> None:
        await self._cursor.executemany(_sql("add_counters"), rows)

    async def chain_heads(self, limit: int) -> list[Row]:
        return await self._fetch(_sql("chain_heads"), limit)

    async def add_audit(self, rows: Sequence[Row], head: Head, *, is_new: bool) -> None:
        await self.insert(audit, rows, columns=LINKED)
        if is_new:
            await self.insert(audit_chains, [head.row], columns=HEAD)
        else:
            await self._fetch(_sql("move_head"), *head.moved)


class MariaDbDriver:
    """Connections of the hot path, one for each transaction under way."""

    dialect: Dialect = "mariadb"
    max_transactions = 3
    most_together = 500
    """Batches are transactions of their own, side by side: the server works on one while we pack the next."""

    def __init__(self, database: Database) -> None:
        url = database.url
        self._options: dict[str, Any] = {
            "host": url.host or "127.0.0.1",
            "port": url.port or 3306,
            "user": url.username or "root",
            "password": url.password or "",
            "database": url.database,
            "charset": "utf8mb4",
            "autocommit": False,
            "init_command": f"{session_timeouts.for_mariadb()}, {_SETTINGS}",
            "stmt_cache_size": _STATEMENTS_KEPT,
            "connect_timeout": session_timeouts.CONNECT_S,
            "read_timeout": session_timeouts.ANSWER_S,
        }
        if url.query.get("ssl") in ("true", "1"):
            self._options["ssl"] = ssl.create_default_context()
        self._idle: list[Any] = []
        self._places = asyncio.Semaphore(_CONNECTIONS)
        self._closed = True

    async def open(self) -> None:
        self._closed = False
        try:
            self._idle.append(await self._new_connection())
        except (MySQLError, OSError, TimeoutError) as error:
            raise StoreUnavailable(reason=said(error)) from error

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(*map(_close, idle))

    async def transact(self, work: Callable[[Session], Awaitable[T]]) -> T:
        lost = 0
        for tries_left in reversed(range(_TRIES)):
            phase = Phase()
            try:
                return await self._once(work, phase)
            except TimeoutError as error:
                raise StoreUnavailable(reason=said(error)) from error
            except (MySQLError, OSError) as error:
                if _rolled_back(error):
                    again = tries_left > 0
                elif is_fault(error):
                    lost += 1
                    again = _lost(error) and not phase.may_be_committed and lost == 1
                else:
                    raise
                if not again:
                    raise StoreUnavailable(reason=said(error)) from error
        raise AssertionError("the last try returns or raises")

    async def _once(self, work: Callable[[Session], Awaitable[T]], phase: Phase) -> T:
        async with self._places:
            connection = await self._connection()
            with Deadline(connection.close) as deadline:
                try:
                    done = await work(MariaDbSession(connection))
                    phase.may_be_committed = True
                    await connection.commit()
                except BaseException as error:
                    if deadline.passed or _is_silent(error):
                        self._leave(connection)
                        raise overdue() from error
                    await self._roll_back(connection)
                    raise
            self._keep(connection)
            return done

    def _leave(self, connection: Any) -> None:
        """After a silence: the others are likely to be as silent, and the next one is to be new."""
        idle, self._idle = self._idle, []
        for each in (connection, *idle):
            each.close()

    async def _connection(self) -> Any:
        if self._closed:
            raise StoreUnavailable(reason="it was closed")
        while self._idle:
            connection = self._idle.pop()
            if connection.connected:
                return connection
        return await self._new_connection()

    async def _new_connection(self) -> Any:
        async with asyncio.timeout(session_timeouts.CONNECT_S):  # the driver's own ends before the server's greeting
            connection = await _connect(**self._options)
        session_timeouts.watch(connection)
        return connection

    async def _roll_back(self, connection: Any) -> None:
        """A connection that cannot even roll back, or was interrupted in the middle of an answer, is thrown away."""
        try:
            async with asyncio.timeout(5):
                await connection.rollback()
        except BaseException as error:
            connection.close()
            if not isinstance(error, Exception):
                raise
        else:
            self._keep(connection)

    def _keep(self, connection: Any) -> None:
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)


async def _close(connection: Any) -> None:
    try:
        async with asyncio.timeout(session_timeouts.CLOSE_S):
            await connection.ensure_closed()
    except (MySQLError, OSError):
        connection.close()


def _is_silent(error: BaseException) -> bool:
    return isinstance(error, OperationalError) and "(read timeout)" in str(error)


def _rolled_back(error: BaseException) -> bool:
    return isinstance(error, OperationalError) and error.args[0] in _TRANSIENT


def _lost(error: BaseException) -> bool:
    return not isinstance(error, OperationalError) or error.args[0] in _LOST

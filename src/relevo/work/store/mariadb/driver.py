"""The hot path on MariaDB: asyncmy, rows in bulk through its binary protocol, lists as text.

MariaDB has no UPDATE ... RETURNING: rows are read with FOR UPDATE and changed by key in the same transaction. Transactions are
READ COMMITTED: a snapshot of the first statement would not show what another transaction has just committed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import asyncmy
from asyncmy.errors import MySQLError, OperationalError
from sqlalchemy import Table

from relevo.errors import StoreUnavailable
from relevo.work.store import session_timeouts
from relevo.work.store.audit_chain import HEAD, LINKED, Head
from relevo.work.store.database import Database
from relevo.work.store.interface import (
    Claim,
    ClaimedRow,
    CompletedRow,
    Completion,
    Dialect,
    KnownKey,
    LockedMessage,
    MessageUpdate,
    Phase,
    QueuePolicy,
    Row,
    Session,
    Share,
)
from relevo.work.store.outage import is_fault, said
from relevo.work.store.session_timeouts import Deadline, overdue
from relevo.work.store.statements import column_names, filled, in_bulk, labelled, statement
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
        return [key for key in (KnownKey(*row) for row in known) if key.message_id not in mine]

    async def forget_keys(self, message_ids: Sequence[str]) -> None:
        await self._fetch(_sql("forget_keys"), tuple(message_ids))

    async def oldest_waiting(self, queue_id: int, limit: int) -> list[LockedMessage]:
        return [LockedMessage(*row) for row in await self._fetch(_sql("oldest_waiting"), queue_id, limit)]

    async def claim_next(
        self, queue_id: int, shares: Sequence[Share], labels: Sequence[tuple[str, str]] = ()
    ) -> list[ClaimedRow]:
        wanted = [text for label in labels for text in label]
        limit = sum(share.rows for share in shares)
        rows = await self._fetch(labelled("mariadb", len(labels)), queue_id, shares[0].claim.now, *wanted, limit)
        return await self._claim(rows, [share.claim for share in shares for _ in range(share.rows)])

    async def claim_ids(self, queue_id: int, wanted: Sequence[tuple[Claim, Sequence[str]]]) -> list[ClaimedRow]:
        claim_of = {message_id: claim for claim, ids in wanted for message_id in ids}
        rows = await self._fetch(_sql("claim_ids"), tuple(claim_of), queue_id, wanted[0][0].now)
        return await self._claim(rows, [claim_of[row[1]] for row in rows])

    async def _claim(self, rows: Sequence[Row], claims: list[Claim]) -> list[ClaimedRow]:
        if not rows:
            return []
        if all(claim is claims[0] for claim in claims):
            token, until, by, now, line = claims[0]
            await self._fetch(_sql("mark_claimed"), token, until, by, now, now, line, tuple(row[1] for row in rows))
        else:
            pairs = zip(rows, claims, strict=False)
            each = [
                (claim.token, claim.until, claim.by, claim.now, claim.now, claim.trail, row[1]) for row, claim in pairs
            ]
            await self._cursor.executemany(_sql("mark_each_claimed"), each)
        return [ClaimedRow(*row) for row in rows]

    async def pending_page(self, queue_id: int, sort_key: int, message_id: str, limit: int) -> list[tuple[int, str]]:
        return await self._fetch(_sql("pending_page"), queue_id, sort_key, sort_key, message_id, limit)

    async def complete(self, items: Sequence[Completion], now: int, trail: str) -> list[CompletedRow]:
        wanted = {item.id: item for item in items}
        rows = await self._fetch(_sql("complete"), tuple(wanted))
        mine = [row for row in rows if wanted[row[0]].allows(row[6], row[7], row[1])]
        if not mine:
            return []
        results = [(row[0], result) for row in mine if (result := wanted[row[0]].result) is not None]
        whole = f"({_sql('whole_of_parts')})"
        cases, values = f", result = {whole}", list[Any]()
        if results:
            rest = f"ELSE {whole} " if len(results) < len(mine) else ""
            cases = f", result = CASE id {'WHEN %s THEN %s ' * len(results)}{rest}END"
            values = [text for pair in results for text in pair]
        sql = _sql("mark_completed").replace("/*results*/", cases)
        await self._fetch(sql, now, now, trail, *values, tuple(row[0] for row in mine))
        return [CompletedRow(*row[:6]) for row in mine]

    async def lock(self, ids: Sequence[str]) -> list[LockedMessage]:
        return [LockedMessage(*row) for row in await self._fetch(_sql("lock"), tuple(ids))]

    async def policies(self, queue_ids: Sequence[int]) -> list[QueuePolicy]:
        return [QueuePolicy(*row) for row in await self._fetch(_sql("policies"), tuple(queue_ids))]

    async def update_messages(self, updates: Sequence[MessageUpdate]) -> None:
        values = [(*rest, message_id) for message_id, *rest in (update.values() for update in updates)]
        await self._cursor.executemany(*in_bulk(_sql("update_messages"), values))

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

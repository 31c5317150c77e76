"""The hot path on MariaDB: asyncmy, rows in bulk through its binary protocol, lists as text.

MariaDB has no UPDATE ... RETURNING: rows are read with FOR UPDATE and changed by key in the same transaction. Transactions are
READ COMMITTED: a snapshot of the first statement would not show what another transaction has just committed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
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
    Completion,
    Dialect,
    Disagreement,
    KnownKey,
    LockedMessage,
    MessageUpdate,
    Phase,
    Place,
    PlainRows,
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
_FEW = 64
"""Rows up to which an INSERT is put off and sent as text with others: a round trip costs more than the text."""
_MOST_APART = 64
"""Messages with values of their own in one UPDATE, which looks for each row's values among all of them."""
_NOT_ALL_DONE = 1242  # a subquery with more than one row, see all_done.sql
_MOST_BYTES = 4_000_000
"""Of bodies in what is sent at once: the server refuses packets beyond some size."""
_DUPLICATE = 1062


_connect = cast("Callable[..., Awaitable[Any]]", asyncmy.connect)  # pyright: ignore[reportUnknownMemberType]


def _sql(name: str) -> str:
    return statement("mariadb", name)


@cache
def _insert(table: Table, columns: tuple[str, ...], rows: int = 1) -> str:
    places = ", ".join(["(" + ", ".join(["%s"] * len(columns)) + ")"] * rows)
    names = ", ".join(f"`{name}`" for name in columns)
    return f"INSERT INTO {table.name} ({names}) VALUES {places}"  # noqa: S608 - names of ours


def _together(groups: Sequence[Completion]) -> Iterable[list[Completion]]:
    """Groups that one statement completes: a large one, or as many small ones as are cheap to tell apart row by row."""
    small: dict[int, list[Completion]] = {}
    for group in groups:
        if len(group.ids) > _MOST_APART // 2:
            yield [group]
            continue
        own = small.setdefault(group.claim_no, [])
        if sum(len(each.ids) for each in own) + len(group.ids) > _MOST_APART:
            yield own
            own = small[group.claim_no] = []
        own.append(group)
    yield from small.values()


class MariaDbSession:
    """An open transaction on one connection. What only writes a little waits until something is asked, or until the commit, and
    is sent with that."""

    dialect: Dialect = "mariadb"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._later: list[str] = []
        self._publishes = False
        self._size = 0
        """Of the bodies that were put off, in bytes."""

    async def commit(self) -> None:
        if self._later:
            await self._send("COMMIT")
        else:
            await self._connection.commit()

    async def _send(self, *last: str) -> None:
        """Sends what was put off and one more, as text: lists of any length, without a plan to keep for each. One that fails
        ends them; what went before it is there until the transaction is rolled back."""
        text, self._later, self._size = ";".join((*self._later, *last)), [], 0
        cursor = self._cursor
        try:
            await cursor.execute(text)
            while await cursor.nextset():
                pass
        except MySQLError as error:
            if error.args[0] == _NOT_ALL_DONE or (self._publishes and error.args[0] == _DUPLICATE):
                raise Disagreement from error
            raise

    def _put_off(self, name: str, *values: Any) -> None:
        self._later.append(self._cursor.mogrify(_sql(name), values))

    async def _fetch(self, sql: str, *values: Any) -> list[Any]:
        await self._send(self._cursor.mogrify(sql, values))
        return await self._cursor.fetchall()

    async def _many(self, sql: str, rows: Sequence[Row]) -> None:
        """A statement for each row; many in bulk, by the binary protocol."""
        if self._later:
            await self._send()
        await self._cursor.executemany(sql, rows)

    async def fetch(self, statement: str, *values: Any) -> list[Row]:
        return await self._fetch(_sql(statement), *values)

    async def insert(self, table: Table, rows: Sequence[Row], *, columns: Sequence[str] | None = None) -> None:
        names, values = filled(column_names(table, columns), rows)  # see in_bulk
        if len(rows) <= _FEW:
            self._later.append(self._cursor.mogrify(_insert(table, names, len(values)), [*chain.from_iterable(values)]))
        else:
            await self._many(_insert(table, names), values)

    async def publish(self, rows: PlainRows) -> None:
        self._publishes = True
        if self._later and self._size + rows.size > _MOST_BYTES:
            await self._send()
        self._size += rows.size
        text: Callable[[str | None], str] = self._connection.escape
        queue, shared = rows.queue_id, f"{rows.tenant_id},{rows.scope_id},{rows.queue_id},{text(rows.published_by)}"
        keys = [*map(text, rows.keys)]
        each = zip(rows.created_at, rows.sort_keys, rows.ids, map(text, rows.bodies), keys, strict=True)
        new = [f"({shared},{at},{at},{place},'{id_}','{id_}',{body},{key})" for at, place, id_, body, key in each]
        self._later.append(_sql("publish_messages").format(",".join(new)))
        known = sorted((key, id_) for key, id_ in zip(keys, rows.ids, strict=True) if key != "NULL")
        if known:
            named = [f"({queue},{key},'{id_}')" for key, id_ in known]
            self._later.append(_sql("publish_keys").format(",".join(named)))
        places = [f"({queue},{place},'{id_}')" for place, id_ in zip(rows.sort_keys, rows.ids, strict=True)]
        self._later.append(_sql("publish_ready").format(",".join(places)))

    async def lock_queues(self, queue_ids: Sequence[int]) -> None:
        await self._fetch(_sql("lock_queues"), tuple(queue_ids))

    async def waiting(self, queue_id: int) -> int:
        return (await self._fetch(_sql("waiting"), queue_id))[0][0]

    async def remember_keys(self, rows: Sequence[tuple[int, str, str]]) -> list[KnownKey]:
        await self._many(_sql("remember_keys"), rows)
        if self._cursor.rowcount == len(rows):
            return []
        mine = {row[2] for row in rows}
        known = await self._fetch(_sql("known_keys"), tuple(row[:2] for row in rows))
        return [key for key in map(KnownKey.of_columns, known) if key.message_id not in mine]

    async def forget_keys(self, keys: Sequence[tuple[int, str]]) -> None:
        await self._fetch(_sql("forget_keys"), tuple(keys))

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
        await self._many(_sql("leave_ready"), places)

    async def pending_page(self, queue_id: int, sort_key: int, message_id: str, limit: int) -> list[Place]:
        return await self._fetch(_sql("pending_page"), queue_id, sort_key, sort_key, message_id, limit)

    async def leases(self, tokens: Sequence[str]) -> list[Lease]:
        return [Lease.of_row(row) for row in await self._fetch(_sql("leases"), tuple(tokens))]

    async def drop_leases(self, tokens: Sequence[str]) -> None:
        self._put_off("drop_leases", tuple(tokens))

    async def shorten_lease(self, token: str, look_at: int) -> None:
        self._put_off("shorten_lease", look_at, token, look_at)

    async def complete(self, alike: Sequence[Completion], now: int) -> None:
        told = [
            (result, g.claim_line, g.trail, g.token, g.claimed_by, g.claimed_at, now, now, message_id, g.claim_no)
            for g in alike
            if g.results is not None
            for message_id, result in zip(g.ids, g.results, strict=True)
        ]
        if told:
            await self._many(_sql("mark_each_completed"), told)
            if self._cursor.rowcount != len(told):
                raise Disagreement
        for groups in _together([group for group in alike if group.results is None]):
            ids = tuple(message_id for group in groups for message_id in group.ids)
            shared = [(g.claimed_by, g.claimed_at, g.token, g.claim_line, g.trail, g.token) for g in groups]
            chosen = (self._chosen(groups, ids, values) for values in zip(*shared, strict=True))
            fixed = map(self._connection.escape, (now, now, ids, groups[0].claim_no))
            self._later.append(_sql("mark_completed").format(*chosen, *fixed))
            self._put_off("all_done", len(ids))

    def _chosen(self, groups: Sequence[Completion], ids: Row, values: Row) -> str:
        """The value of each row's group."""
        if len(set(values)) == 1:
            return self._connection.escape(values[0])
        of_each = tuple(value for group, value in zip(groups, values, strict=True) for _ in group.ids)
        return f"ELT(FIELD(id, {self._connection.escape(ids)[1:-1]}), {self._connection.escape(of_each)[1:-1]})"

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
        await self._many(*in_bulk(_sql("update_messages"), values))

    async def add_due(self, rows: Sequence[tuple[str, int, str]]) -> None:
        await self._many(_sql("add_due"), rows)

    async def add_counters(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._put_off("add_counters", *row)

    async def chain_heads(self, limit: int) -> list[Row]:
        return await self._fetch(_sql("chain_heads"), limit)

    async def add_audit(self, rows: Sequence[Row], head: Head, *, is_new: bool) -> None:
        await self.insert(audit, rows, columns=LINKED)
        if is_new:
            await self.insert(audit_chains, [head.row], columns=HEAD)
        else:
            self._put_off("move_head", *head.moved)


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
            session = MariaDbSession(connection)
            with Deadline(connection.close) as deadline:
                try:
                    done = await work(session)
                    phase.may_be_committed = True
                    await session.commit()
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

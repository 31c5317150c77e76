"""The hot path on SQLite: one thread that writes, with a connection and prepared statements of its own.

No step of a transaction waits for anything, so its coroutine runs to its end in that thread, between BEGIN IMMEDIATE and
COMMIT: one hand-over between threads for a whole joined transaction.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from typing import Any, TypeVar, cast

import msgspec
from sqlalchemy import Table

from relevo.errors import StoreUnavailable
from relevo.work.store.audit_chain import HEAD, LINKED, Head
from relevo.work.store.database import BUSY_TIMEOUT_MS, PRAGMAS, Database, sqlite_path
from relevo.work.store.interface import (
    NO_CLAIMS,
    ClaimedRow,
    Completion,
    Dialect,
    Disagreement,
    KnownKey,
    LockedMessage,
    MessageUpdate,
    Place,
    PlainRows,
    QueuePolicy,
    Row,
    Session,
)
from relevo.work.store.lease import Lease
from relevo.work.store.outage import is_fault
from relevo.work.store.statements import RARE, column_names, filled, labelled, statement
from relevo.work.store.tables import audit, audit_chains, due, keys

T = TypeVar("T")

_STATEMENTS_KEPT = 256
_SIZES = (100, 25, 5, 1)
"""Messages of one INSERT of a publish: so few statements stay prepared, whatever the number of messages."""
_AT_ONCE = 50
"""Rows of one INSERT. The interpreter is let go of for each statement: the fewer there are, the less often this thread waits to
have it back from the one that serves requests."""
_WORTH_A_LIST = 4
"""Messages from which a list of their ids costs less than a statement for each."""
_HOT = (
    "PRAGMA wal_autocheckpoint = 4000",  # 16 MB: a page that changes often is copied once, not at every few commits
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA secure_delete = OFF",  # on by default on Debian: what goes is written over. An erasure writes the file anew
)


def _sql(name: str) -> str:
    return statement("sqlite", name)


def _json(values: Sequence[Any]) -> str:
    return msgspec.json.encode(values).decode()


@cache
def _insert(verb: str, table: Table, columns: tuple[str, ...], rows: int) -> str:
    values = ", ".join([f"({', '.join('?' * len(columns))})"] * rows)
    return f"{verb} INTO {table.name} ({', '.join(columns)}) VALUES {values}"


@cache
def _repeated(name: str, shared: int, rows: int) -> str:
    """A statement that inserts one row, whose first places all rows share, for several."""
    head, _, row = _sql(name).partition("VALUES ")
    own = max(map(int, _PLACE.findall(row))) - shared

    def of(number: int) -> str:
        return _PLACE.sub(lambda at: f"?{int(at[1]) + (own * number if int(at[1]) > shared else 0)}", row.strip())

    return f"{head}VALUES {', '.join(map(of, range(rows)))}"


_PLACE = re.compile(r"\?(\d+)")


class SqliteSession:
    """An open transaction, used in the writing thread."""

    dialect: Dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _fetch(self, sql: str, values: Sequence[Any]) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    async def fetch(self, statement: str, *values: Any) -> list[Row]:
        return self._fetch(_sql(statement), values)

    async def insert(self, table: Table, rows: Sequence[Row], *, columns: Sequence[str] | None = None) -> None:
        self._insert("INSERT", table, column_names(table, columns), rows)

    def _insert(self, verb: str, table: Table, columns: tuple[str, ...], rows: Sequence[Row]) -> int:
        """Inserts rows, many with each statement; how many were. To bind None, sqlite3 looks for adapters in vain, which takes
        longer than all else: columns without values are left out."""
        columns, rows = filled(columns, rows)
        whole = len(rows) - len(rows) % _AT_ONCE
        inserted = 0
        if whole:
            together = [tuple(chain.from_iterable(rows[at : at + _AT_ONCE])) for at in range(0, whole, _AT_ONCE)]
            inserted = self._connection.executemany(_insert(verb, table, columns, _AT_ONCE), together).rowcount
        if whole < len(rows):
            inserted += self._connection.executemany(_insert(verb, table, columns, 1), rows[whole:]).rowcount
        return inserted

    async def publish(self, rows: PlainRows) -> None:
        shared = rows[:4]
        each = zip(rows.created_at, rows.sort_keys, rows.ids, rows.bodies, rows.keys, strict=True)
        self._publish("publish_messages", shared, list(each))
        keyed = [(key, message_id) for key, message_id in zip(rows.keys, rows.ids, strict=True) if key is not None]
        try:
            self._publish("publish_keys", (rows.queue_id,), keyed)
        except sqlite3.IntegrityError as error:
            raise Disagreement from error
        self._publish("publish_ready", (rows.queue_id,), list(zip(rows.sort_keys, rows.ids, strict=True)))

    def _publish(self, name: str, shared: Row, rows: Sequence[Row]) -> None:
        at = 0
        for size in _SIZES:
            while len(rows) - at >= size:
                values = (*shared, *chain.from_iterable(rows[at : at + size]))
                self._connection.execute(_repeated(name, len(shared), size), values)
                at += size

    async def lock_queues(self, queue_ids: Sequence[int]) -> None:
        """There is one writer."""

    async def waiting(self, queue_id: int) -> int:
        return self._fetch(_sql("waiting"), (queue_id,))[0][0]

    async def remember_keys(self, rows: Sequence[tuple[int, str, str]]) -> list[KnownKey]:
        if self._insert("INSERT OR IGNORE", keys, column_names(keys, None), rows) == len(rows):
            return []
        mine = {row[2] for row in rows}
        wanted = _json([row[:2] for row in rows])
        known = [KnownKey.of_columns(row) for row in self._fetch(_sql("known_keys"), (wanted,))]
        return [key for key in known if key.message_id not in mine]

    async def forget_keys(self, keys: Sequence[tuple[int, str]]) -> None:
        self._connection.execute(_sql("forget_keys"), (_json(keys),))

    async def oldest_waiting(self, queue_id: int, limit: int) -> list[LockedMessage]:
        return [LockedMessage.of_columns(row) for row in self._fetch(_sql("oldest_waiting"), (queue_id, limit))]

    async def claim_next(
        self, queue_id: int, limit: int, scope_id: int = 0, labels: Sequence[tuple[str, str]] = ()
    ) -> list[ClaimedRow]:
        ordered, rare = await self._rarest_first(scope_id, labels) if labels else ([], False)
        wanted = [scope_id, *chain.from_iterable(ordered)] if labels else []
        sql = labelled("sqlite", len(ordered), rare=rare)
        rows = [ClaimedRow(*row) for row in self._fetch(sql, (queue_id, limit, *wanted))]
        if labels:
            await self.leave_ready([(queue_id, row.sort_key, row.id) for row in rows])
        elif rows:  # there is one writer: what was found is what comes first
            self._connection.execute(_sql("take_first"), (queue_id, rows[-1].sort_key, rows[-1].id))
        return rows

    async def _rarest_first(
        self, scope_id: int, labels: Sequence[tuple[str, str]]
    ) -> tuple[list[tuple[str, str]], bool]:
        """The labels, the one that fewest messages carry first, and whether those are few."""
        counts = {label: (self._fetch(_sql("count_labelled"), (scope_id, *label, RARE)))[0][0] for label in labels}
        return sorted(counts, key=counts.__getitem__), min(counts.values()) < RARE

    async def claim_ids(self, queue_id: int, ids: Sequence[str]) -> list[ClaimedRow]:
        rows = [ClaimedRow(*row) for row in self._fetch(_sql("claim_ids"), (queue_id, _json(ids)))]
        await self.leave_ready([(queue_id, row.sort_key, row.id) for row in rows])
        return rows

    async def leave_ready(self, places: Sequence[tuple[int, int, str]]) -> None:
        self._connection.executemany(_sql("leave_ready"), places)

    async def pending_page(self, queue_id: int, sort_key: int, message_id: str, limit: int) -> list[Place]:
        return self._fetch(_sql("pending_page"), (queue_id, sort_key, message_id, limit))

    async def leases(self, tokens: Sequence[str]) -> list[Lease]:
        return [Lease.of_row(row) for row in self._fetch(_sql("leases"), (_json(tokens),))]

    async def drop_leases(self, tokens: Sequence[str]) -> None:
        self._connection.execute(_sql("drop_leases"), (_json(tokens),))

    async def shorten_lease(self, token: str, look_at: int) -> None:
        self._connection.execute(_sql("shorten_lease"), (token, look_at))

    async def complete(self, alike: Sequence[Completion], now: int) -> None:
        done, wanted = 0, 0
        each: list[Row] = []
        for group in alike:
            wanted += len(group.ids)
            shared = (
                group.token,
                group.claimed_by,
                group.claimed_at,
                group.claim_line,
                group.trail,
                now,
                group.claim_no,
            )
            if group.results is not None:
                each += [(*shared, *pair) for pair in zip(group.ids, group.results, strict=True)]
            elif len(group.ids) < _WORTH_A_LIST:
                each += [(*shared, message_id, None) for message_id in group.ids]
            else:
                sql = _sql("mark_completed")
                done += self._connection.execute(sql, (*shared, _json(group.ids))).rowcount
        if each:
            done += self._connection.executemany(_sql("mark_each_completed"), each).rowcount
        if done != wanted:
            raise Disagreement

    async def lock(
        self,
        ids: Sequence[str],
        claims: Mapping[str, int] = NO_CLAIMS,  # noqa: ARG002 - one statement asks for both
    ) -> list[LockedMessage]:
        return [LockedMessage.of_columns(row) for row in self._fetch(_sql("lock"), (_json(ids),))]

    async def policies(self, queue_ids: Sequence[int]) -> list[QueuePolicy]:
        return [QueuePolicy(*row) for row in self._fetch(_sql("policies"), (_json(queue_ids),))]

    async def update_messages(self, updates: Sequence[MessageUpdate]) -> None:
        self._connection.executemany(_sql("update_messages"), [update.values() for update in updates])

    async def add_due(self, rows: Sequence[tuple[str, int, str]]) -> None:
        self._insert("INSERT OR IGNORE", due, column_names(due, None), rows)

    async def add_counters(self, rows: Sequence[Row]) -> None:
        self._connection.executemany(_sql("add_counters"), rows)

    async def chain_heads(self, limit: int) -> list[Row]:
        return self._fetch(_sql("chain_heads"), (limit,))

    async def add_audit(self, rows: Sequence[Row], head: Head, *, is_new: bool) -> None:
        await self.insert(audit, rows, columns=LINKED)
        if is_new:
            await self.insert(audit_chains, [head.row], columns=HEAD)
        else:
            self._connection.execute(_sql("move_head"), head.moved)


class SqliteDriver:
    """The writing thread of one process. Other processes may write the same file: SQLite makes them wait for each other."""

    dialect: Dialect = "sqlite"
    max_transactions = 1
    most_together = 2_000
    """There is nothing to gain from two, and each costs its share of begin, commit and audit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="relevo-sqlite")
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connect)

    async def close(self) -> None:
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
            self._thread.shutdown(wait=False)
            self._thread = None

    async def transact(self, work: Callable[[Session], Awaitable[T]]) -> T:
        if self._thread is None:
            raise StoreUnavailable(reason="it was closed")
        async with self._database.writing:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work)

    # --- in the thread -------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        path = sqlite_path(self._database.url)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(
            path,
            timeout=BUSY_TIMEOUT_MS / 1000,
            isolation_level=None,
            cached_statements=_STATEMENTS_KEPT,
            check_same_thread=False,
        )
        for pragma in (*PRAGMAS, *_HOT):
            self._connection.execute(pragma)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self, work: Callable[[Session], Awaitable[T]]) -> T:
        connection = self._connection
        assert connection is not None
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                done = _to_its_end(cast("Coroutine[Any, Any, T]", work(SqliteSession(connection))))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.OperationalError as error:  # locked for too long, a full disk, a folder that is gone
            raise StoreUnavailable(reason=str(error)) from error
        except sqlite3.DatabaseError as error:
            if is_fault(error):
                raise StoreUnavailable(reason=str(error)) from error
            raise
        return done


def _to_its_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise AssertionError("a transaction awaits nothing but its session")

"""The hot path on PostgreSQL: asyncpg, with arrays unnested into rows: one statement for any number of messages.

A joined transaction of a few requests is mostly round trips. What only writes waits until something is asked, or until the
end, and is then sent as one statement.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import asyncpg
from sqlalchemy import BigInteger, Integer, SmallInteger, Table

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
from relevo.work.store.statements import RARE, column_names, labelled, statement
from relevo.work.store.tables import audit, audit_chains

T = TypeVar("T")

_TRIES = 5
_COPIED_FROM = 100
"""Rows from which COPY beats an INSERT of arrays: a third less of our CPU, for encoding values without arrays around them. It
takes two round trips of its own, so fewer rows go with what else there is to write."""

_NARROW = 4
"""Columns up to which a row is little work for an array, however many there are."""

_PLANNED_ONCE = {"plan_cache_mode": "force_generic_plan"}
"""The server plans a statement once a connection: the plan is the same each time, and costs more than a small claim."""

# Rolled back by the server, and worth another try.
_TRANSIENT = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


def _sql(name: str) -> str:
    return statement("postgresql", name)


_PUBLISH = (_sql("publish_messages"), _sql("publish_keys"), _sql("publish_ready"))


def _arrays(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


@cache
def _insert(table: Table, columns: tuple[str, ...]) -> str:
    arrays = ", ".join(f"${at}::{_kind(table, name)}[]" for at, name in enumerate(columns, 1))
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays})"  # noqa: S608 - names of ours


@cache
def _as_one(statements: tuple[tuple[str, ...], ...]) -> str:
    """Statements that write, as one that does all of it; the places of those that do not share their values are numbered on.

    >>> _as_one((("INSERT INTO a VALUES ($1, $2)",), ("UPDATE b SET c = $1", "DELETE FROM d WHERE e = $1")))
    'WITH s0 AS (INSERT INTO a VALUES ($1, $2)), s1 AS (UPDATE b SET c = $3)\\nDELETE FROM d WHERE e = $3'
    """
    numbered: list[str] = []
    taken = 0
    for sqls in statements:
        numbered += [_PLACE.sub(lambda found, by=taken: f"${int(found[1]) + by}", sql) for sql in sqls]
        taken += max(int(each) for sql in sqls for each in _PLACE.findall(sql))
    *first, last = numbered
    beside = ", ".join(f"s{at} AS ({sql})" for at, sql in enumerate(first))
    return f"WITH {beside}\n{last}" if beside else last


_PLACE = re.compile(r"\$(\d+)")


def _kind(table: Table, name: str) -> str:
    kind = table.c[name].type
    if isinstance(kind, SmallInteger):
        return "smallint"
    if isinstance(kind, BigInteger):
        return "bigint"
    return "integer" if isinstance(kind, Integer) else "text"


class _Done(NamedTuple):
    """Of what was put off the statement that has to change so many rows."""

    place: int
    rows: int


class PostgresSession:
    """A transaction on one connection. It is begun when something is asked; what only writes is a transaction by itself."""

    dialect: Dialect = "postgresql"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._transaction: Any = None
        self._later: list[tuple[tuple[str, ...], Sequence[Any]]] = []
        """Statements that share their values, and those."""
        self._done: _Done | None = None
        self._publishes = False

    async def commit(self, phase: Phase) -> None:
        if self._transaction is None:
            phase.may_be_committed = True
            await self._send()
        else:
            await self._send()
            phase.may_be_committed = True
            await self._transaction.commit()

    async def roll_back(self) -> None:
        if self._transaction is not None and not self._connection.is_closed():
            await self._transaction.rollback()

    async def _begin(self) -> None:
        if self._transaction is None:
            self._transaction = self._connection.transaction()
            await self._transaction.start()
        await self._send()

    async def _send(self) -> None:
        """Sends what was put off. Those statements do not see each other's rows, and none of them has to."""
        if not self._later:
            return
        later, self._later = self._later, []
        done, self._done = self._done, None
        statements = [sqls for sqls, _ in later]
        values = [value for _, theirs in later for value in theirs]
        if done is not None:
            statements.append((_sql("all_done").replace("done", f"s{done.place}"),))
            values.append(done.rows)
        try:
            await self._connection.execute(_as_one(tuple(statements)), *values)
        except asyncpg.UniqueViolationError as error:
            if not self._publishes:
                raise
            raise Disagreement from error
        except asyncpg.DivisionByZeroError as error:
            raise Disagreement from error

    async def _fetch(self, sql: str, *values: Any) -> list[Any]:
        await self._begin()
        return await self._connection.fetch(sql, *values)

    async def fetch(self, statement: str, *values: Any) -> list[Row]:
        return [tuple(row) for row in await self._fetch(_sql(statement), *values)]

    async def insert(self, table: Table, rows: Sequence[Row], *, columns: Sequence[str] | None = None) -> None:
        names = column_names(table, columns)
        if len(rows) >= _COPIED_FROM and len(names) > _NARROW:
            await self._begin()
            await self._connection.copy_records_to_table(table.name, records=rows, columns=names)
        else:
            self._later.append(((_insert(table, names),), _arrays(rows)))

    async def publish(self, rows: PlainRows) -> None:
        self._publishes = True
        values = (*rows[:4], rows.created_at, rows.sort_keys, rows.ids, rows.bodies, rows.keys)
        self._later.append((_PUBLISH, values))

    async def lock_queues(self, queue_ids: Sequence[int]) -> None:
        await self._fetch(_sql("lock_queues"), list(queue_ids))

    async def waiting(self, queue_id: int) -> int:
        return (await self._fetch(_sql("waiting"), queue_id))[0][0]

    async def remember_keys(self, rows: Sequence[tuple[int, str, str]]) -> list[KnownKey]:
        queues, keys, messages = _arrays(rows)
        added = {row[0] for row in await self._fetch(_sql("remember_keys"), queues, keys, messages)}
        if len(added) == len(rows):
            return []
        known = [KnownKey.of_columns(row) for row in await self._fetch(_sql("known_keys"), queues, keys)]
        return [key for key in known if key.message_id not in added]

    async def forget_keys(self, keys: Sequence[tuple[int, str]]) -> None:
        await self._fetch(_sql("forget_keys"), *_arrays(keys))

    async def oldest_waiting(self, queue_id: int, limit: int) -> list[LockedMessage]:
        rows = await self._with_ready(await self._fetch(_sql("oldest_waiting"), queue_id, limit))
        return [row for row in rows if row.state != "claimed"]

    async def claim_next(
        self, queue_id: int, limit: int, scope_id: int = 0, labels: Sequence[tuple[str, str]] = ()
    ) -> list[ClaimedRow]:
        ordered, rare = await self._rarest_first(scope_id, labels) if labels else ([], False)
        wanted = [scope_id, *(text for label in ordered for text in label)] if labels else []
        rows = await self._fetch(labelled("postgresql", len(ordered), rare=rare), queue_id, limit, *wanted)
        return sorted(ClaimedRow(*row) for row in rows)

    async def _rarest_first(
        self, scope_id: int, labels: Sequence[tuple[str, str]]
    ) -> tuple[list[tuple[str, str]], bool]:
        """The labels, the one that fewest messages carry first, and whether those are few."""
        counts = {label: (await self._fetch(_sql("count_labelled"), scope_id, *label, RARE))[0][0] for label in labels}
        return sorted(counts, key=counts.__getitem__), min(counts.values()) < RARE

    async def claim_ids(self, queue_id: int, ids: Sequence[str]) -> list[ClaimedRow]:
        return [ClaimedRow(*row) for row in await self._fetch(_sql("claim_ids"), queue_id, list(ids))]

    async def leave_ready(self, places: Sequence[tuple[int, int, str]]) -> None:
        self._later.append(((_sql("leave_ready"),), _arrays(places)))

    async def pending_page(self, queue_id: int, sort_key: int, message_id: str, limit: int) -> list[Place]:
        return await self._fetch(_sql("pending_page"), queue_id, sort_key, message_id, limit)

    async def leases(self, tokens: Sequence[str]) -> list[Lease]:
        return [Lease.of_row(row) for row in await self._fetch(_sql("leases"), list(tokens))]

    async def drop_leases(self, tokens: Sequence[str]) -> None:
        self._later.append(((_sql("drop_leases"),), (list(tokens),)))

    async def shorten_lease(self, token: str, look_at: int) -> None:
        self._later.append(((_sql("shorten_lease"),), (token, look_at)))

    async def complete(self, alike: Sequence[Completion], now: int) -> None:
        ids, results, leases = list[str](), list[str | None](), list[int]()
        for place, group in enumerate(alike, 1):
            ids += group.ids
            results += group.results or [None] * len(group.ids)
            leases += [place] * len(group.ids)
        shared = _arrays([(g.claim_no, g.token, g.claimed_by, g.claimed_at, g.claim_line, g.trail) for g in alike])
        self._done = _Done(sum(len(sqls) for sqls, _ in self._later), len(ids))
        self._later.append(((_sql("complete"),), (ids, results, leases, *shared, now)))

    async def lock(self, ids: Sequence[str], claims: Mapping[str, int] = NO_CLAIMS) -> list[LockedMessage]:
        return await self._with_ready(await self._fetch(_sql("lock"), list(ids)), claims)

    async def _with_ready(self, rows: Sequence[Any], claims: Mapping[str, int] = NO_CLAIMS) -> list[LockedMessage]:
        found = [LockedMessage.of_columns(tuple(row)) for row in rows]
        asked = [row for row in found if row.state == "claimed" and claims.get(row.id) != row.claim_no]
        if not asked:
            return found
        places = _arrays([(row.queue_id, row.sort_key, row.id) for row in asked])
        there = {row[0] for row in await self._fetch(_sql("lock_ready"), *places)}
        return [
            LockedMessage.of_columns((*row[:25], True)) if row[0] in there else known
            for row, known in zip(rows, found, strict=True)
        ]

    async def policies(self, queue_ids: Sequence[int]) -> list[QueuePolicy]:
        return [QueuePolicy(*row) for row in await self._fetch(_sql("policies"), list(queue_ids))]

    async def update_messages(self, updates: Sequence[MessageUpdate]) -> None:
        await self._fetch(_sql("update_messages"), *_arrays([update.values() for update in updates]))

    async def add_due(self, rows: Sequence[tuple[str, int, str]]) -> None:
        self._later.append(((_sql("add_due"),), _arrays(rows)))

    async def add_counters(self, rows: Sequence[Row]) -> None:
        self._later.append(((_sql("add_counters"),), _arrays(rows)))

    async def chain_heads(self, limit: int) -> list[Row]:
        return await self.fetch("chain_heads", limit)

    async def add_audit(self, rows: Sequence[Row], head: Head, *, is_new: bool) -> None:
        await self.insert(audit, rows, columns=LINKED)
        if is_new:
            await self.insert(audit_chains, [head.row], columns=HEAD)
        else:
            self._later.append(((_sql("move_head"),), head.moved))


class PostgresDriver:
    """A pool of connections, one for each transaction under way."""

    dialect: Dialect = "postgresql"
    max_transactions = 3
    most_together = 500
    """Batches are transactions of their own, side by side: the server works on one while we pack the next."""

    def __init__(self, database: Database) -> None:
        self._url = database.url.render_as_string(hide_password=False)
        self._pool: Any = None
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        try:
            self._pool = await self._new_pool()
            async with self._pool.acquire(timeout=session_timeouts.ANSWER_S):
                pass
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise StoreUnavailable(reason=said(error)) from error

    async def close(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await _close(pool)
        await asyncio.gather(*self._closing)

    async def transact(self, work: Callable[[Session], Awaitable[T]]) -> T:
        lost = 0
        for tries_left in reversed(range(_TRIES)):
            phase = Phase()
            try:
                return await self._once(work, phase)
            except _TRANSIENT as error:
                if not tries_left:
                    raise StoreUnavailable(reason=said(error)) from error
            except (asyncpg.LockNotAvailableError, TimeoutError, asyncpg.InsufficientResourcesError) as error:
                raise StoreUnavailable(reason=said(error)) from error
            except Exception as error:
                if not is_fault(error):
                    raise
                lost += 1
                if phase.may_be_committed or lost > 1:
                    raise StoreUnavailable(reason=said(error)) from error
        raise AssertionError("the last try returns or raises")

    async def _once(self, work: Callable[[Session], Awaitable[T]], phase: Phase) -> T:
        if self._pool is None:
            raise StoreUnavailable(reason="it was closed")
        pool = self._pool
        async with pool.acquire(timeout=session_timeouts.ANSWER_S) as connection:
            with Deadline(connection.terminate) as deadline:
                session = PostgresSession(connection)
                try:
                    done = await work(session)
                    await session.commit(phase)
                except BaseException as error:
                    if deadline.passed and isinstance(error, Exception):
                        await self._leave(pool)
                        raise overdue() from error
                    await session.roll_back()
                    raise
                return done

    async def _new_pool(self) -> Any:
        return await cast("Any", asyncpg).create_pool(
            self._url,
            min_size=0,  # with a floor, asyncpg tells of each try to get back to it, with a traceback
            max_size=16,
            statement_cache_size=200,
            max_cacheable_statement_size=0,
            max_queries=1_000_000,
            reset=_as_it_is,
            init=_watched,
            timeout=session_timeouts.CONNECT_S,
            server_settings={**session_timeouts.for_postgres(), **_PLANNED_ONCE},
        )

    async def _leave(self, pool: Any) -> None:
        """After a silence: the pool's other connections are likely to be as silent, and the next one is to be new. What runs
        on them comes to its end, or to its own deadline."""
        if self._pool is pool:
            self._pool = await self._new_pool()
            task = asyncio.create_task(_close(pool))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def _close(pool: Any) -> None:
    with contextlib.suppress(Exception):  # what does not say goodbye in time, asyncpg ends without
        async with asyncio.timeout(session_timeouts.CLOSE_S):
            await pool.close()


async def _watched(connection: Any) -> None:
    session_timeouts.watch(connection)


async def _as_it_is(_: Any) -> None:
    """A transaction leaves nothing behind that would have to be reset: no listeners, cursors, settings or advisory locks."""

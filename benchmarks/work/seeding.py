"""Millions of messages in minutes: a few that went through HTTP, multiplied by SQL.

The only part of the bench that knows the tables, which nobody outside the store should read: it belongs to the version beside
it and changes with it, so only this checkout is measured with it. It leaves behind what the server would have left: rows of
messages or of the archive, and what finds them (keys, labels, the search table, `ready`). Depths, audit, outbox, usage and
Redis do not have them.

Call it while no server runs on the database.
"""

# ruff: noqa: S608 - the SQL is made of our own names and numbers

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Generator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql

from relevo.wire.ids import first_id

_MESSAGES, _ARCHIVE = "relevo_store_messages", "relevo_store_archive"
_KEYS, _LABELS, _QUEUES = "relevo_store_keys", "relevo_store_labels", "relevo_store_queues"
_SEARCH, _READY = "relevo_store_search", "relevo_store_ready"
_OF_LIVE_ONES = ("standing", "claim_no")
"""Columns that the archive has not: there, `state` says how a message ended."""
_TIMES = 100
"""How often the patterns are copied in one transaction, at most."""
_NUMBER = {
    "sqlite": "printf('%016d', {})",
    "postgresql": "lpad(({})::text, 16, '0')",
    "mariadb": "LPAD({}, 16, '0')",
}
"""A number as the last 16 characters of an id."""


def finished(database_url: str, queue: str, count: int, *, ago_s: float, tell: Callable[[str], None]) -> None:
    """Copies the finished messages of a queue until there are `count` more, which all finished `ago_s` ago or earlier."""
    _copy(database_url, queue, count, _MESSAGES, ago_s, tell)


def waiting(database_url: str, queue: str, count: int, *, ago_s: float, tell: Callable[[str], None]) -> None:
    """Copies the messages that wait in a queue, in which are no others, until there are `count` more."""
    _copy(database_url, queue, count, _MESSAGES, ago_s, tell, pending=True)


def archived(database_url: str, queue: str, count: int, *, ago_s: float, tell: Callable[[str], None]) -> None:
    """The same into the archive."""
    _copy(database_url, queue, count, _ARCHIVE, ago_s, tell)


def _copy(
    database_url: str,
    queue: str,
    count: int,
    into: str,
    ago_s: float,
    tell: Callable[[str], None],
    *,
    pending: bool = False,
) -> None:
    with _connected(database_url) as (kind, run):
        for setting in _QUICK[kind]:
            run(setting)
        (queue_id,) = run(f"SELECT id FROM {_QUEUES} WHERE slug = '{queue}'")[0]
        finished = "IS NULL" if pending else "IS NOT NULL"
        where = f"queue_id = {queue_id} AND standing IS NULL AND finished_at {finished}"
        first, last, patterns = run(f"SELECT MIN(id), MAX(id), COUNT(*) FROM {_MESSAGES} WHERE {where}")[0]
        if not patterns:
            raise RuntimeError(f"queue {queue!r} has no such message to copy")
        chosen = f"{where} AND id >= '{first}' AND id <= '{last}'"
        now, times = time.time_ns() // 1_000_000, min(_TIMES, -(-count // int(patterns)))
        run(
            f"CREATE TEMPORARY TABLE seed_search AS SELECT s.scope_id, s.attribute, s.id FROM {_SEARCH} s "
            f"WHERE s.id IN (SELECT id FROM {_MESSAGES} WHERE {chosen})"
        )
        step = int(patterns) * times
        steps = -(-count // step)
        for number in range(steps):
            at = now - int(ago_s * 1000) - (steps - number) * 1000
            _step(
                kind, run, chosen, into, places=(number * times, times, int(patterns)), at=at, now=now, pending=pending
            )
            tell(f"{(number + 1) * step:,} of {count:,} rows")
        for statement in _AFTERWARDS[kind]:
            run(statement)


def _step(
    kind: str, run: _Run, chosen: str, into: str, *, places: tuple[int, int, int], at: int, now: int, pending: bool
) -> None:
    """One transaction: all patterns so many times, with ids of one millisecond."""
    head, (begun, times, patterns) = first_id(at)[:10], places
    place = f"(series.s + {begun}) * {patterns} + pattern.place"
    new_id = f"'{head}' || {_NUMBER[kind].format(place)}"
    own = {
        "id": new_id,
        "correlation_id": f"CASE WHEN pattern.correlation_id = pattern.id THEN {new_id} ELSE pattern.correlation_id END",
        "idempotency_key": f"pattern.idempotency_key || '-' || {_NUMBER[kind].format(place)}",
        **dict.fromkeys(("created_at", "updated_at"), str(at)),
        "finished_at": "NULL" if pending else str(at),
    }
    columns = [name for name in run.columns(_MESSAGES) if into == _MESSAGES or name not in _OF_LIVE_ONES]
    values = [own.get(name, f"pattern.{name}") for name in columns]
    if into == _ARCHIVE:
        columns, values = [*columns, "state", "archived_at"], [*values, "'completed'", str(now)]
    source = (
        f"WITH RECURSIVE series(s) AS (SELECT 0 UNION ALL SELECT s + 1 FROM series WHERE s < {times - 1}), "
        f"pattern AS (SELECT m.*, ROW_NUMBER() OVER (ORDER BY m.id) AS place FROM {_MESSAGES} m WHERE {chosen}) "
    )
    made = f"BETWEEN '{head}{'0' * 16}' AND '{head}{'Z' * 16}'"
    run("BEGIN")
    run(
        f"INSERT INTO {into} ({', '.join(columns)}) {source}"
        f"SELECT {', '.join(values)} FROM series CROSS JOIN pattern ORDER BY series.s, pattern.place"
    )
    keys = "queue_id, idempotency_key, {id}"
    run(
        f"INSERT INTO {_KEYS} ({keys.format(id='message_id')}) SELECT {keys.format(id='id')} FROM {into} "
        f"WHERE id {made} AND idempotency_key IS NOT NULL"
    )
    run(
        f"INSERT INTO {_LABELS} (scope_id, name, value, message_id) {source}"
        f"SELECT l.scope_id, l.name, l.value, {new_id} FROM series CROSS JOIN pattern "
        f"JOIN {_LABELS} l ON l.message_id = pattern.id"
    )
    run(
        f"INSERT INTO {_SEARCH} (scope_id, attribute, id) {source}SELECT f.scope_id, f.attribute, {new_id} "
        "FROM series CROSS JOIN pattern JOIN seed_search f ON f.id = pattern.id ORDER BY 1, 2, 3"
    )
    if pending:
        run(f"INSERT INTO {_READY} (queue_id, sort_key, id) SELECT queue_id, sort_key, id FROM {into} WHERE id {made}")
    run("COMMIT")


class _Run:
    """Runs SQL on any of the three; rows as tuples."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self._columns: dict[str, list[str]] = {}

    def __call__(self, statement: str) -> list[Any]:
        self._cursor.execute(statement)
        return list(self._cursor.fetchall()) if self._cursor.description else []

    def columns(self, table: str) -> list[str]:
        if table not in self._columns:
            self._cursor.execute(f"SELECT * FROM {table} LIMIT 1")
            self._columns[table] = [column[0] for column in self._cursor.description]
            self._cursor.fetchall()
        return self._columns[table]


_QUICK = {
    "sqlite": ("PRAGMA synchronous = OFF", "PRAGMA cache_size = -200000"),
    "postgresql": ("SET synchronous_commit = off",),
    "mariadb": (
        "SET sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')",
        "SET unique_checks = 0",
        "SET foreign_key_checks = 0",
        "SET GLOBAL innodb_flush_log_at_trx_commit = 0",
    ),
}
"""Not durable: what a crash would lose is made again."""
_FILLED = (_MESSAGES, _ARCHIVE, _KEYS, _LABELS, _SEARCH, _READY)
_AFTERWARDS = {
    "sqlite": (),
    "postgresql": tuple(f"VACUUM ANALYZE {table}" for table in _FILLED),
    "mariadb": (
        "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
        f"ANALYZE TABLE {', '.join(_FILLED)}",
    ),
}


@contextlib.contextmanager
def _connected(database_url: str) -> Generator[tuple[str, _Run]]:
    place = urlsplit(database_url)
    kind = place.scheme.partition("+")[0].replace("mysql", "mariadb")
    if kind == "sqlite":
        connection: Any = sqlite3.connect(database_url.removeprefix("sqlite:///"), isolation_level=None)
    elif kind == "postgresql":
        connection = psycopg.connect(database_url.replace("+asyncpg", ""), autocommit=True)
    else:
        connection = pymysql.connect(
            host=place.hostname, port=place.port or 3306, user=place.username, database=place.path.strip("/")
        )
    with contextlib.closing(connection):
        yield kind, _Run(connection.cursor())


def rows_of(database_url: str, view: str) -> int:
    """How many rows one of the documented views has."""
    with _connected(database_url) as (_, run):
        return int(run(f"SELECT COUNT(*) FROM {view}")[0][0])

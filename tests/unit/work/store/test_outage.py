"""Which errors are the store's fault, by the words of real drivers, and what the log is told of it."""

import logging
import sqlite3
from collections.abc import Generator
from pathlib import Path

import asyncpg
import pytest
from asyncmy.errors import InterfaceError, OperationalError

from relevo.work.store import outage
from relevo.work.store.outage import Outage, is_fault, said


@pytest.fixture
def file(tmp_path: Path) -> Generator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "work.db")
    connection.execute("CREATE TABLE things (name TEXT UNIQUE, body BLOB)")
    connection.execute("INSERT INTO things VALUES ('a', '')")
    connection.commit()
    yield connection
    connection.close()


def _error(connection: sqlite3.Connection, statement: str) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as raised:
        connection.execute(statement)
    return raised.value


def test_a_full_file_and_one_that_may_only_be_read_are_faults(file: sqlite3.Connection, tmp_path: Path) -> None:
    file.execute("PRAGMA max_page_count = 1")
    assert is_fault(_error(file, "INSERT INTO things VALUES ('b', zeroblob(100000))"))
    reader = sqlite3.connect(f"file:{tmp_path / 'work.db'}?mode=ro", uri=True)
    assert is_fault(_error(reader, "INSERT INTO things VALUES ('c', '')"))
    reader.close()


def test_a_damaged_file_and_one_that_cannot_be_opened_are_faults(tmp_path: Path) -> None:
    (tmp_path / "work.db").write_bytes(b"something else" * 100)
    damaged = sqlite3.connect(tmp_path / "work.db")
    assert is_fault(_error(damaged, "SELECT * FROM things"))
    damaged.close()
    with pytest.raises(sqlite3.OperationalError) as raised:
        sqlite3.connect(tmp_path / "nowhere" / "work.db")
    assert is_fault(raised.value)


def test_a_statement_its_values_and_anothers_lock_are_none(file: sqlite3.Connection, tmp_path: Path) -> None:
    assert not is_fault(_error(file, "SELECT * FROM nothing"))
    assert not is_fault(_error(file, "INSERT INTO things VALUES ('a', '')"))
    file.rollback()
    file.execute("BEGIN IMMEDIATE")
    other = sqlite3.connect(tmp_path / "work.db", timeout=0)
    assert not is_fault(_error(other, "INSERT INTO things VALUES ('d', '')"))
    other.close()


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction"),
        asyncpg.AdminShutdownError("terminating connection due to administrator command"),
        asyncpg.CannotConnectNowError("the database system is starting up"),
        asyncpg.DiskFullError("could not extend file"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.InterfaceError("connection is closed"),
        OperationalError(1290, "The MariaDB server is running with the --read-only option"),
        OperationalError(2013, "Lost connection to MySQL server during query"),
        OperationalError(1114, "The table is full"),
        InterfaceError("Cancelled during execution"),
        ConnectionRefusedError(111, "Connect call failed"),
        TimeoutError(),
    ],
    ids=lambda error: f"{type(error).__name__}-{error.args[0] if error.args else ''}",
)
def test_what_servers_say_of_themselves_is_a_fault(error: Exception) -> None:
    assert is_fault(error)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.UniqueViolationError("duplicate key"),
        asyncpg.LockNotAvailableError("canceling statement due to lock timeout"),
        asyncpg.DeadlockDetectedError("deadlock detected"),
        asyncpg.UndefinedTableError("relation does not exist"),
        asyncpg.DataError("invalid input for query argument"),
        OperationalError(1213, "Deadlock found"),
        OperationalError(1205, "Lock wait timeout exceeded"),
        OperationalError(1054, "Unknown column"),
        ValueError("ours"),
        None,
    ],
    ids=lambda error: f"{type(error).__name__}-{error.args[0] if error else ''}",
)
def test_what_they_say_of_a_statement_is_none(error: Exception | None) -> None:
    assert not is_fault(error)


def test_the_words_are_the_servers_in_one_line() -> None:
    assert said(OperationalError(1114, "The table is full\nand so on")) == "The table is full"
    assert said(TimeoutError()) == "TimeoutError"


def test_the_log_has_one_line_when_it_begins_and_one_when_it_is_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(outage.time, "monotonic", lambda: now[0])
    caplog.set_level(logging.WARNING, "relevo.store")
    met = Outage()
    met.answered(writing=True)
    waits = list[object]()
    for _ in range(5):
        waits.append(met.met(ConnectionRefusedError("refused"), writing=True).fields["wait_s"])
        met.answered(writing=True)  # by turns: some connections are dead, others are not
        now[0] += 20
    now[0] -= 19
    met.answered(writing=True)
    assert caplog.messages == ["the database does not answer: refused"]
    assert waits == [1, 5, 10, 15, 15]  # it grows with what it lasts, up to a bound

    now[0] += 2
    met.answered(writing=False)  # rows can be read on a full disk, too
    assert len(caplog.messages) == 1
    met.answered(writing=True)
    met.answered(writing=True)
    assert caplog.messages[1:] == ["the database answers again, after 83.0 s: 5 calls failed"]

"""`relevo db`: the tables are brought up to date, looked at, and compared; on all three databases."""

import sqlite3
from pathlib import Path

import pytest

from relevo.work.store import schema
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer
from tests.support.command_line import call


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    name = f"db_{tmp_path.name[-40:]}".replace("-", "_").replace("[", "_").replace("]", "_").lower()
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        postgres.create(name)
        return postgres.url("asyncpg", name)
    if request.param == "mariadb":
        mariadb: MariaDbServer = request.getfixturevalue("mariadb")
        mariadb.create(name)
        return mariadb.url("asyncmy", name)
    return f"sqlite:///{tmp_path / 'work.db'}"


def test_an_empty_database_is_brought_up_to_date_once(url: str) -> None:
    newest = schema.head()
    assert (
        call("db", "current", "--database-url", url).out == f"at revision none; this version of relevo needs {newest}\n"
    )
    behind = call("db", "check", "--database-url", url)
    assert (behind.code, behind.out) == (1, "")
    assert f"revision none instead of {newest}" in behind.err
    assert call("db", "upgrade", "--database-url", url).out == f"upgraded from revision none to {newest}\n"
    assert call("db", "upgrade", "--database-url", url).out == f"up to date: revision {newest}\n"
    checked = call("db", "check", "--database-url", url)
    assert (checked.code, checked.out) == (0, "the tables match this version of relevo\n")


def test_programs_read_the_same_as_json(url: str) -> None:
    newest = schema.head()
    assert call("db", "current", "--database-url", url, "--json").data == {"current": None, "needed": newest}
    behind = call("db", "check", "--database-url", url, "--json")
    assert (behind.code, behind.data) == (1, {"differences": [f"revision none instead of {newest}"]})
    first = call("db", "upgrade", "--database-url", url, "--to", "0001", "--json").data
    assert first == {"before": None, "after": "0001"}
    again = call("db", "upgrade", "--database-url", url, "--json").data
    assert again == {"before": "0001", "after": newest}
    assert call("db", "check", "--database-url", url, "--json").data == {"differences": []}


def test_a_table_that_somebody_dropped_is_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'work.db'}"
    call("db", "upgrade", "--database-url", url)
    with sqlite3.connect(tmp_path / "work.db") as connection:
        connection.execute("DROP TABLE relevo_store_labels")
    connection.close()
    said = call("db", "check", "--database-url", url)
    assert said.code == 1
    assert "relevo_store_labels" in said.err
    assert "relevo_store_labels" in str(call("db", "check", "--database-url", url, "--json").data["differences"])


@pytest.mark.parametrize("command", ["upgrade", "current", "check"])
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("oracle://scott:tiger@127.0.0.1/work", "'oracle'"),
        ("nonsense", "it is not a URL"),
        ("postgresql://ada:geheim@127.0.0.1:1/work", "The database does not answer"),
        ("mariadb://ada:geheim@127.0.0.1:1/work", "The database does not answer"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_line_without_its_password(command: str, url: str, words: str) -> None:
    said = call("db", command, "--database-url", url)
    assert said.out == ""
    assert words in said.refusal()
    assert "geheim" not in said.err
    assert "tiger" not in said.err


def test_an_unknown_revision_is_named(tmp_path: Path) -> None:
    said = call("db", "upgrade", "--database-url", f"sqlite:///{tmp_path / 'work.db'}", "--to", "9999")
    assert said.code == 1
    assert "9999" in said.err
    assert said.err.count("\n") == 1

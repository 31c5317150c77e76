"""The log of a healthy start has one line a part, the first time and the second: no warning, no chatter of libraries."""

import re
import signal
import uuid
from pathlib import Path

import httpx
import pytest

from tests.servers.child import Child
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer
from tests.servers.server import Server
from tests.support.beat import turn_back_the_beat
from tests.support.serve_process import RELEVO, ServeProcess, sqlite_in

TABLES = re.compile(r"^\S+ \S+ INFO relevo\.serve: the tables of the database were made, they have revision \d{4}\n$")


def test_the_first_start_tells_of_the_tables_and_the_second_of_nothing(tmp_path: Path) -> None:
    started = ServeProcess(sqlite_in(tmp_path), key="none")
    assert httpx.get(f"{started.url}/readyz").status_code == 200
    code, said = started.end()
    assert code == 0
    assert TABLES.match(said), said
    started.start()
    assert started.end() == (0, "")


def test_the_one_line_on_stdout_names_console_and_reference(tmp_path: Path) -> None:
    started = ServeProcess(sqlite_in(tmp_path), key="none")
    assert f"console: {started.url}/console, API reference: {started.url}/docs" in started.said
    started.end()


@pytest.mark.whole  # two starts more
def test_agents_that_catch_up_after_a_downtime_are_nothing_to_tell_of(tmp_path: Path, redis86: Server) -> None:
    started = ServeProcess(sqlite_in(tmp_path), "--redis-url", redis86.url, key="none")
    turn_back_the_beat(tmp_path / "work.db")
    code, said = started.end()
    assert code == 0
    assert TABLES.match(said), said


@pytest.mark.whole  # processes that share a port start in test_serve.py too
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_processes_that_share_a_port_start_without_a_word_of_libraries(
    request: pytest.FixtureRequest, kind: str
) -> None:
    server: MariaDbServer | PostgresServer = request.getfixturevalue(kind)
    name = f"f{uuid.uuid4().hex[:12]}"
    server.create(name)
    url = server.url("asyncmy" if isinstance(server, MariaDbServer) else "asyncpg", name)
    started = ServeProcess(url, "--upgrade", "--processes", "2", key="none")
    code, said = started.end(signal.SIGTERM)
    assert code == 0
    assert TABLES.match(said), said


def test_the_agents_alone_say_one_line(tmp_path: Path) -> None:
    with Child(*RELEVO, "agents", "--database-url", sqlite_in(tmp_path)) as started:
        said = started.line()
        assert said == "the agents are running; Ctrl-C stops them"
        assert (started.end(signal.SIGTERM), started.out) == (0, f"{said}\n")
        assert TABLES.match(started.err), started.err

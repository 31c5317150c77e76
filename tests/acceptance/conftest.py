"""What acceptance tests share: the command line as a user calls it."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server
from tests.support.command_line import Cli, called
from tests.support.serve_process import ServeProcess, sqlite_in


@pytest.fixture
def cli(request: pytest.FixtureRequest) -> Cli:
    server: Server = request.getfixturevalue("server" if "server" in request.fixturenames else "valkey")
    return lambda *arguments, stdin="": called(server, *arguments, stdin=stdin)


@pytest.fixture
def work_queues(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key_leaks: KeyLeaks
) -> Generator[ServeProcess]:
    """`relevo serve` with a key where the pages say it is: in the environment, and in data/work.key of the test's folder. For
    a page that needs one, beside a Redis and with the stream queue `letters`."""
    options: tuple[str, ...] = ()
    page: Any = getattr(request.node, "callspec", None) and request.node.callspec.params.get("page")
    if isinstance(page, Path) and any(
        each in page.read_text() for each in ("--stream-queue letters", "client.events(")
    ):
        key_leaks.allow("rw:*")
        options = ("--redis-url", request.getfixturevalue("valkey").url, "--stream-queue", "letters")
    served = ServeProcess(sqlite_in(tmp_path), *options)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "work.key").write_text(served.key + "\n")
    monkeypatch.setenv("RELEVO_URL", served.url)
    monkeypatch.setenv("RELEVO_KEY", served.key)
    yield served
    served.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServeProcess]:
    """One `relevo serve` for the tests of a file: each has a scope of its own. Files may be run by different processes, and
    one that waits for the end of the run is not free: its agents look for work several times a second."""
    process = ServeProcess(sqlite_in(tmp_path_factory.mktemp("work")))
    yield process
    process.close()

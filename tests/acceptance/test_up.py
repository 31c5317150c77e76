"""`relevo up`: starts, says where everything is, keeps its data, and stops when told to."""

import json
import os
import re
import shlex
import signal
import socket
import textwrap
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.acceptance.conftest import COMMAND, relevo, shell_environment
from tests.agents.beat import turn_back_the_beat
from tests.servers.child import Child, Done
from tests.servers.process import free_port


class Platform:
    """A running `relevo up`."""

    def __init__(self, folder: Path | str, *options: str, cwd: Path | None = None) -> None:
        self.child = Child(*COMMAND, "up", "--data", str(folder), *options, cwd=cwd)
        self.child.wait_for("^Ctrl-C")
        self.said = self.child.out
        found = re.search(r"redis://127\.0\.0\.1:\d+", self.said)
        assert found is not None, self.said + self.child.err
        self.url = found[0]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit code and the rest of what it said."""
        code = self.child.end(number)
        return code, self.child.out.removeprefix(self.said) + self.child.err


Start = Callable[..., Platform]


@pytest.fixture
def up(tmp_path: Path) -> Generator[Start]:
    started: list[Platform] = []

    def start(*options: str, folder: Path | str = tmp_path / "data", cwd: Path | None = None) -> Platform:
        started.append(Platform(folder, *options, cwd=cwd))
        return started[-1]

    yield start
    for platform in started:
        platform.child.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_and_stops_cleanly(up: Start, number: signal.Signals) -> None:
    platform = up("--port", str(free_port()))
    assert relevo("add", "emails", "welcome", url=platform.url).code == 0
    code, said = platform.end(number)
    assert (code, said.strip()) == (0, "stopped; the data is kept")
    with pytest.raises(redis.ConnectionError):
        _ping(platform.url)


def test_it_shows_the_console_and_the_reference_and_warns_of_nothing_after_a_downtime(up: Start) -> None:
    ports = ("--port", str(free_port()), "--work-port", str(free_port()))
    platform = up(*ports)
    for label, path in (("console", "/console"), ("API reference", "/docs")):
        found = re.search(rf"{label} +│ (http://\S+{path})", platform.said)
        assert found is not None, platform.said
        assert httpx.get(found[1], follow_redirects=True).status_code == 200
    turn_back_the_beat(platform.url)
    assert platform.end(signal.SIGTERM) == (0, "stopped; the data is kept\n")
    again = up(*ports)
    turn_back_the_beat(again.url)
    assert again.end(signal.SIGTERM) == (0, "stopped; the data is kept\n")


def test_a_second_run_finds_the_jobs_of_the_first(up: Start) -> None:
    port = str(free_port())
    first = up("--port", port)
    relevo("add", "emails", "welcome", url=first.url)
    first.end(signal.SIGTERM)
    second = up("--port", port)
    assert relevo("inspect", "emails", "--json", url=second.url).data["waiting"] == 1


def test_the_worker_it_suggests_runs_the_job_it_suggests(up: Start, tmp_path: Path) -> None:
    platform = up("--port", str(free_port()))
    program = platform.said.partition("A worker, app.py:\n")[2].partition("and in that folder:")[0]
    (tmp_path / "app.py").write_text(textwrap.dedent(program))
    add, run = (
        re.search(rf"^  relevo ({word} .*?)(?:  #.*)?$", platform.said, re.MULTILINE) for word in ("add", "worker")
    )
    assert add is not None
    assert run is not None
    assert relevo(*shlex.split(add[1]), url=platform.url).code == 0
    environment = {**os.environ, "RELEVO_REDIS_URL": platform.url}
    with Child(*COMMAND, *shlex.split(run[1]), cwd=tmp_path, env=environment) as worker:
        assert worker.line() == "Welcome, ada@example.org"
        assert worker.end(signal.SIGTERM) == 0


def test_the_first_steps_it_prints_work_as_printed(up: Start, tmp_path: Path) -> None:
    platform = up("--port", str(free_port()), "--work-port", str(free_port()), folder=tmp_path / "my data")
    printed = platform.said.partition("Work queues, over HTTP:\n")[2]
    script, _, rest = printed.partition("or with ")
    done = _bash(f"{script}\n{rest.split('`')[1]}\n", tmp_path)
    (scope, queue, message, claimed), command = _answers(done.out)
    assert (scope["slug"], queue["slug"], message["state"]) == ("billing", "invoices", "pending")
    assert [(each["id"], each["body"]) for each in claimed] == [(message["id"], {"order": 17})]
    assert command.endswith(" pending\n")


def test_the_key_of_the_first_start_is_for_its_owner_only_and_stays(up: Start, tmp_path: Path) -> None:
    ports = ("--port", str(free_port()), "--work-port", str(free_port()))
    first = up(*ports)
    file = tmp_path / "data" / "work.key"
    key = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert key.strip() not in first.said
    first.end(signal.SIGTERM)
    assert "made at the first start" in up(*ports).said
    assert file.read_text() == key


def test_another_port_is_chosen_when_its_own_is_taken(up: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        platform = up("--port", str(port))
        assert platform.url != f"redis://127.0.0.1:{port}"
        assert f"port {port} is taken" in platform.said
        assert relevo("inspect", "emails", url=platform.url).code == 0


def test_a_second_platform_in_the_same_folder_is_refused(up: Start, tmp_path: Path) -> None:
    up("--port", str(free_port()))
    said = relevo("up", "--data", str(tmp_path / "data"), "--port", str(free_port()))
    assert said.code == 1
    assert "in use by the embedded server" in said.err
    assert "Traceback" not in said.err


def test_a_server_that_dies_ends_the_platform_with_an_error(up: Start) -> None:
    platform = up("--port", str(free_port()))
    _shut_down(platform.url)
    assert platform.child.ended() == 1, platform.child.out
    assert "stopped unexpectedly" in platform.child.err


def test_an_unknown_fsync_is_refused_before_anything_starts(tmp_path: Path) -> None:
    said = relevo("up", "--data", str(tmp_path / "data"), "--fsync", "sometimes")
    assert said.code == 2
    assert not (tmp_path / "data").exists()


def _answers(said: str) -> tuple[list[Any], str]:
    """What the server answered to one curl after another, and what was printed after that: curl ends no line."""
    found: list[Any] = []
    while said.startswith("{"):
        answer, end = json.JSONDecoder().raw_decode(said)
        found.append(answer["data"])
        said = said[end:]
    return found, said


def _bash(script: str, folder: Path, **environment: str) -> Done:
    """Runs what was printed as a reader does who pastes it: every line as it stands, and none may fail."""
    command = ("bash", "-euo", "pipefail", "-c", script)
    done = Child.run(*command, cwd=folder, env={**shell_environment(folder), **environment})
    assert done.code == 0, done.out + done.err
    return done


def _ping(url: str) -> None:
    with redis.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        client.ping()  # pyright: ignore[reportUnknownMemberType]


def _shut_down(url: str) -> None:
    with redis.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        client.shutdown(nosave=True)  # pyright: ignore[reportUnknownMemberType]

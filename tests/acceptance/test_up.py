"""`relevo up`: starts, says where everything is, keeps its data, and stops when told to."""

import json
import os
import re
import shlex
import signal
import socket
import textwrap
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx
import pytest
import redis

from relevo.broker.embedded import EmbeddedServer
from tests.servers.child import Child, Done
from tests.servers.process import free_port
from tests.support.beat import turn_back_the_beat
from tests.support.command_line import COMMAND, relevo, shell_environment


class Platform:
    """A running `relevo up`, until the block ends."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.child = Child(*COMMAND, "up", "--data", str(folder), *options)
        self.child.wait_for("^Ctrl-C")
        self.said = self.child.out
        found = re.search(r"redis://127\.0\.0\.1:\d+", self.said)
        assert found is not None, self.said + self.child.err
        self.url = found[0]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit code and the rest of what it said."""
        code = self.child.end(number)
        return code, self.child.out.removeprefix(self.said) + self.child.err

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.close()


class History(NamedTuple):
    """What was seen of two runs on the same data: the first ended with SIGTERM, the second with Ctrl-C."""

    first: str
    second: str
    added: int
    waiting: int
    pages: dict[str, int]
    key_mode: int
    keys: tuple[str, str]
    ends: dict[signal.Signals, tuple[int, str]]
    answers_after: dict[signal.Signals, bool]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Two runs for the tests that only look at what became of them: a start takes longer than all of these."""
    data = tmp_path_factory.mktemp("history") / "data"
    ports = ("--port", str(free_port()), "--work-port", str(free_port()))
    ends: dict[signal.Signals, tuple[int, str]] = {}
    answers: dict[signal.Signals, bool] = {}
    with Platform(data, *ports) as first:
        added = relevo("add", "emails", "welcome", url=first.url).code
        pages = {found[2]: _status(found[1]) for found in re.finditer(r"│ (http://\S+(/console|/docs))", first.said)}
        mode, key = (data / "work.key").stat().st_mode & 0o777, (data / "work.key").read_text()
        turn_back_the_beat(data / "work.db")
        ends[signal.SIGTERM] = first.end(signal.SIGTERM)
        answers[signal.SIGTERM] = _answers_ping(first.url)
    with Platform(data, *ports) as second:
        waiting = relevo("inspect", "emails", "--json", url=second.url).data["waiting"]
        turn_back_the_beat(data / "work.db")
        ends[signal.SIGINT] = second.end(signal.SIGINT)
        answers[signal.SIGINT] = _answers_ping(second.url)
    keys = (key, (data / "work.key").read_text())
    return History(first.said, second.said, added, waiting, pages, mode, keys, ends, answers)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Generator[Platform]:
    """One that runs, for all tests that only use it."""
    ports = ("--port", str(free_port()), "--work-port", str(free_port()))
    with Platform(tmp_path_factory.mktemp("up") / "my data", *ports) as running:
        yield running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_and_stops_cleanly_also_after_a_downtime(history: History, number: signal.Signals) -> None:
    assert history.added == 0
    assert history.ends[number] == (0, "stopped; the data is kept\n")
    assert not history.answers_after[number]


def test_it_shows_the_console_and_the_reference(history: History) -> None:
    assert history.pages == {"/console": 200, "/docs": 200}
    for label, path in (("console", "/console"), ("API reference", "/docs")):
        assert re.search(rf"{label} +│ (http://\S+{path})", history.first), history.first


def test_a_second_run_finds_the_jobs_of_the_first(history: History) -> None:
    assert history.waiting == 1


def test_the_key_of_the_first_start_is_for_its_owner_only_and_stays(history: History) -> None:
    assert history.key_mode == 0o600
    assert history.keys[0].strip() not in history.first
    assert "made at the first start" in history.second
    assert history.keys[0] == history.keys[1]


def test_the_worker_it_suggests_runs_the_job_it_suggests(platform: Platform, tmp_path: Path) -> None:
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


def test_the_first_steps_it_prints_work_as_printed(platform: Platform, tmp_path: Path) -> None:
    printed = platform.said.partition("Work queues, over HTTP:\n")[2]
    script, _, rest = printed.partition("or with ")
    done = _bash(f"{script}\n{rest.split('`')[1]}\n", tmp_path)
    (scope, queue, message, claimed), command = _answers(done.out)
    assert (scope["slug"], queue["slug"], message["state"]) == ("billing", "invoices", "pending")
    assert [(each["id"], each["body"]) for each in claimed] == [(message["id"], {"order": 17})]
    assert command.endswith(" pending\n")


@pytest.mark.whole  # a platform of its own
def test_another_port_is_chosen_when_its_own_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Platform(tmp_path / "data", "--port", str(port)) as platform:
            assert platform.url != f"redis://127.0.0.1:{port}"
            assert f"port {port} is taken" in platform.said
            assert relevo("inspect", "emails", url=platform.url).code == 0


def test_a_second_platform_in_the_same_folder_is_refused(platform: Platform) -> None:
    said = relevo("up", "--data", str(platform.folder), "--port", str(free_port()))
    assert (said.code, said.out) == (1, "")
    assert f"`relevo up` runs in {platform.folder} already (process {platform.child.pid}, {platform.url})" in said.err
    assert "Traceback" not in said.err


def test_a_folder_of_a_server_without_a_platform_is_refused_and_nothing_is_said_to_have_stopped(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data"):
        said = relevo("up", "--data", str(tmp_path / "data"), "--port", str(free_port()))
    assert (said.code, said.out) == (1, "")
    assert "in use by the embedded server" in said.err


def test_a_server_that_dies_ends_the_platform_with_an_error(tmp_path: Path) -> None:
    with Platform(tmp_path / "data", "--port", str(free_port())) as platform:
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


def _status(url: str) -> int:
    return httpx.get(url, follow_redirects=True).status_code


def _answers_ping(url: str) -> bool:
    with redis.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        try:
            return bool(client.ping())  # pyright: ignore[reportUnknownMemberType]
        except redis.ConnectionError:
            return False


def _shut_down(url: str) -> None:
    with redis.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        client.shutdown(nosave=True)  # pyright: ignore[reportUnknownMemberType]

"""`relevo up`: starts, says where everything is, keeps its data, and stops when told to."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import textwrap
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.acceptance.conftest import COMMAND, relevo, shell_environment
from tests.acceptance.page import ROOT, WRITTEN_WORK_URL, blocks_of
from tests.servers.process import free_port


class Platform:
    """A running `relevo up`."""

    def __init__(self, folder: Path | str, *options: str, cwd: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "up", "--data", str(folder), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
        )  # fmt: skip
        assert self.process.stdout is not None
        said: list[str] = []
        for line in self.process.stdout:
            said.append(line)
            if line.startswith("Ctrl-C"):
                break
        self.said = "".join(said)
        found = re.search(r"redis://127\.0\.0\.1:\d+", self.said)
        assert found is not None, self.said + self.end(signal.SIGKILL)[1]
        self.url = found[0]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit code and the rest of what it said."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=40)
        return self.process.returncode, out + err


Start = Callable[..., Platform]


@pytest.fixture
def up(tmp_path: Path) -> Generator[Start]:
    started: list[Platform] = []

    def start(*options: str, folder: Path | str = tmp_path / "data", cwd: Path | None = None) -> Platform:
        started.append(Platform(folder, *options, cwd=cwd))
        return started[-1]

    yield start
    for platform in started:
        if platform.process.poll() is None:
            platform.end(signal.SIGKILL)
        for stream in (platform.process.stdout, platform.process.stderr):
            assert stream is not None
            stream.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_and_stops_cleanly(up: Start, number: signal.Signals) -> None:
    platform = up("--port", str(free_port()))
    assert relevo("add", "emails", "welcome", url=platform.url).code == 0
    code, said = platform.end(number)
    assert (code, said.strip()) == (0, "stopped; the data is kept")
    with pytest.raises(redis.ConnectionError):
        _ping(platform.url)


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
    worker = subprocess.Popen(
        [*COMMAND, *shlex.split(run[1])], cwd=tmp_path, env={**os.environ, "RELEVO_REDIS_URL": platform.url},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "Welcome, ada@example.org\n"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(40) == 0


def test_the_first_steps_it_prints_work_as_printed(up: Start, tmp_path: Path) -> None:
    platform = up("--port", str(free_port()), "--work-port", str(free_port()), folder=tmp_path / "my data")
    printed = platform.said.partition("Work queues, over HTTP:\n")[2]
    script, _, rest = printed.partition("or with ")
    done = _bash(f"{script}\n{rest.split('`')[1]}\n", tmp_path)
    (scope, queue, message, claimed), command = _answers(done.stdout)
    assert (scope["slug"], queue["slug"], message["state"]) == ("billing", "invoices", "pending")
    assert [(each["id"], each["body"]) for each in claimed] == [(message["id"], {"order": 17})]
    assert command.endswith(" pending\n")


def test_the_first_steps_of_the_readme_work_as_printed(up: Start, tmp_path: Path) -> None:
    platform = up("--port", str(free_port()), "--work-port", str(free_port()), folder="data", cwd=tmp_path)
    (block,) = [block for block in blocks_of(ROOT / "README.md") if "curl" in block.text]
    found = re.search(r"http://127\.0\.0\.1:\d+", platform.said)
    assert found is not None
    done = _bash(block.text.replace(WRITTEN_WORK_URL, found[0]), tmp_path, RELEVO_URL=found[0])
    (scope, queue, _, claimed), table = _answers(done.stdout)
    assert (scope["slug"], queue["slug"], claimed[0]["body"]) == ("billing", "invoices", {"order": 17})
    assert "queues of billing" in table


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
    out, err = platform.process.communicate(timeout=40)
    assert platform.process.returncode == 1, out
    assert "ended by itself" in err


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


def _bash(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs what was printed as a reader does who pastes it: every line as it stands, and none may fail."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=50, cwd=folder,
        env={**shell_environment(folder), **environment}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _ping(url: str) -> None:
    with redis.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        client.ping()  # pyright: ignore[reportUnknownMemberType]


def _shut_down(url: str) -> None:
    with redis.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        client.shutdown(nosave=True)  # pyright: ignore[reportUnknownMemberType]

"""A running `relevo up` of this folder is found by itself; what the caller names wins; a dead one is nobody's server."""

import os
import re
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from relevo.cli.shell.run_file import NAME, Running, find_running, running_in
from tests.servers.child import Child
from tests.servers.process import free_port
from tests.servers.server import Server
from tests.support.command_line import COMMAND, Said


class Up:
    """`relevo up` in a folder, with nothing of ours in its environment."""

    def __init__(self, folder: Path, *options: str) -> None:
        ports = ("--port", str(free_port()), "--work-port", str(free_port()))
        self.folder = folder
        self.child = Child(*COMMAND, "up", *ports, *options, cwd=folder, env=bare())
        self.child.wait_for("^Ctrl-C")
        self.said = self.child.out
        found = re.search(r"redis://127\.0\.0\.1:\d+", self.said)
        assert found is not None, self.said + self.child.err
        self.url = found[0]

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.child.end(number)


Start = Callable[..., Up]


@pytest.fixture
def up(tmp_path: Path) -> Generator[Start]:
    started: list[Up] = []

    def start(*options: str) -> Up:
        started.append(Up(tmp_path, *options))
        return started[-1]

    yield start
    for each in started:
        each.child.close()


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Generator[Up]:
    """One for all tests that leave it as it is: a start takes longer than they do."""
    started = Up(tmp_path_factory.mktemp("up"))
    yield started
    started.child.close()


def bare(**more: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if not name.startswith("RELEVO")}, **more}


def relevo_in(folder: Path, *arguments: str, **environment: str) -> Said:
    return Said(*Child.run(*COMMAND, *arguments, cwd=folder, env=bare(**environment)))


def test_a_folder_elsewhere_is_shown_as_it_was_given(platform: Up, tmp_path: Path) -> None:
    data = platform.folder / "data"
    for command in (("inspect", "emails"), ("work", "scopes")):
        said = relevo_in(tmp_path, *command, RELEVO_DATA=str(data))
        assert said.code == 0, said.err
        assert f"of `relevo up` in {data} (" in said.err


def test_commands_in_its_folder_find_it_and_say_so(platform: Up) -> None:
    added = relevo_in(platform.folder, "add", "emails", "welcome")
    assert added.code == 0
    assert added.err == f"using the server of `relevo up` in ./data ({platform.url})\n"
    found = relevo_in(platform.folder, "inspect", "emails", "--json")
    assert found.data["waiting"] == 1
    scopes = relevo_in(platform.folder, "work", "create-scope", "billing")
    assert scopes.code == 0, scopes.err
    assert re.match(r"using the work queues of `relevo up` in \./data \(http://127\.0\.0\.1:\d+\)\n", scopes.err)


def test_what_the_caller_names_wins(platform: Up, valkey: Server, queue_name: str) -> None:
    for said in (
        relevo_in(platform.folder, "--redis-url", valkey.url, "add", queue_name, "before"),
        relevo_in(platform.folder, "add", queue_name, "behind", "--redis-url", valkey.url),
        relevo_in(platform.folder, "add", queue_name, "environment", RELEVO_REDIS_URL=valkey.url),
    ):
        assert (said.code, said.err) == (0, "")
    assert relevo_in(platform.folder, "inspect", queue_name, "--json", RELEVO_REDIS_URL=valkey.url).data["waiting"] == 3


@pytest.mark.whole  # a platform of its own for a variable
def test_a_data_folder_of_another_name_is_found_by_its_variable(up: Start, tmp_path: Path) -> None:
    platform = up("--data", "kept")
    assert f"export RELEVO_REDIS_URL={platform.url}" in platform.said
    assert relevo_in(tmp_path, "add", "emails", "welcome", RELEVO_DATA="kept").code == 0


@pytest.mark.whole  # a platform of its own for a file's mode
def test_its_file_is_for_its_owner_and_goes_with_it(up: Start, tmp_path: Path) -> None:
    platform = up()
    file = tmp_path / "data" / NAME
    assert file.stat().st_mode & 0o777 == 0o600
    platform.end()
    assert not file.exists()


def test_one_that_was_killed_is_not_used(up: Start, tmp_path: Path) -> None:
    platform = up()
    platform.end(signal.SIGKILL)
    assert (tmp_path / "data" / NAME).exists(), "nobody was there to remove it"
    assert find_running(tmp_path / "data") is None
    said = relevo_in(tmp_path, "inspect", "emails", "--patience", "0.1")
    assert "relevo up` in ./data" not in said.err


def test_a_file_is_believed_while_its_writer_lives(tmp_path: Path) -> None:
    with running_in(tmp_path, "redis://127.0.0.1:1", None):
        assert find_running(tmp_path) == Running(os.getpid(), "redis://127.0.0.1:1")
    assert find_running(tmp_path) is None
    (tmp_path / NAME).write_text('{"pid": 1, "redis_url": "redis://127.0.0.1:1"}')  # somebody with that id always lives
    assert find_running(tmp_path) is None


def test_it_names_the_console_how_to_sign_in_and_the_reference(platform: Up) -> None:
    assert re.search(r"console +│ http://127\.0\.0\.1:\d+/console +\(sign in with that key", platform.said)
    assert re.search(r"http://127\.0\.0\.1:\d+/docs", platform.said)

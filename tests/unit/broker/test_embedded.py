"""The embedded server: its data lasts, its folder has one user, and nothing of it stays behind."""

import doctest
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import redis.asyncio

from relevo.broker import embedded
from relevo.broker.embedded import EmbeddedServer
from relevo.errors import (
    DataFolderInUse,
    EmbeddedServerFailed,
    EmbeddedServerMissing,
    EmbeddedServerUnavailable,
    PortTaken,
)
from tests.servers.child import Child
from tests.servers.process import wait_until
from tests.servers.server import Client, Server

CLIENT: Client = redis.asyncio.Redis

# Starts a server in the folder given, says where it is, and waits for a line that never comes.
PARENT = """
import sys
from relevo.broker.embedded import EmbeddedServer
server = EmbeddedServer(sys.argv[1]).start()
print(server.pid, server.port, flush=True)
sys.stdin.readline()
"""


async def test_the_data_lasts_through_a_restart(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server:
        await _call(server, "SET", "key", "kept")
    async with EmbeddedServer(tmp_path) as server:
        assert await _call(server, "GET", "key") == b"kept"


async def test_the_data_lasts_through_a_kill_of_the_server(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path, fsync="always").start()
    await _call(server, "SET", "key", "kept")
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: not server.running, "the server to end")
    with server:  # the same object starts anew
        assert await _call(server, "GET", "key") == b"kept"


async def test_it_writes_an_append_only_file_and_listens_on_loopback(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server:
        assert await _call(server, "CONFIG", "GET", "appendonly") == [b"appendonly", b"yes"]
        assert await _call(server, "CONFIG", "GET", "appendfsync") == [b"appendfsync", b"everysec"]
        assert await _call(server, "CONFIG", "GET", "bind") == [b"bind", b"127.0.0.1"]
    assert "Ready to accept connections" in server.log.read_text()


def test_a_port_can_be_chosen(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "a") as first:
        port = first.port
    with EmbeddedServer(tmp_path / "b", port=port) as second:
        assert second.url == f"redis://127.0.0.1:{port}"


def test_a_stopped_server_is_gone_and_stopping_twice_is_harmless(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path).start()
    pid = server.pid
    server.stop()
    server.stop()
    assert not server.running
    assert not _alive(pid)
    with pytest.raises(EmbeddedServerMissing, match="No embedded server runs in"):
        _ = server.url


def test_starting_twice_is_harmless(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        pid = server.pid
        assert server.start().pid == pid


def test_a_port_taken_by_any_program_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"Port {port} of 127.0.0.1 is taken"):
            EmbeddedServer(tmp_path, port=port).start()


def test_a_port_taken_by_another_server_is_refused(valkey: Server, tmp_path: Path) -> None:
    port = valkey.processes[0].port
    with pytest.raises(PortTaken, match=str(port)):
        EmbeddedServer(tmp_path, port=port).start()


def test_a_folder_in_use_is_refused_with_the_process_to_blame(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        with pytest.raises(DataFolderInUse) as refused:
            EmbeddedServer(tmp_path).start()
        assert (refused.value.pid, refused.value.port) == (server.pid, server.port)
        assert f"kill {server.pid}" in str(refused.value)


def test_a_folder_in_use_can_be_attached_to_and_detaching_leaves_it_running(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        with EmbeddedServer.attach(tmp_path) as attached:
            assert attached.url == server.url
            assert attached.pid == server.pid
            attached.stop()
        assert server.running


def test_nothing_to_attach_to_is_said(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(EmbeddedServerMissing, match=f"No embedded server runs in {folder}"):
            EmbeddedServer.attach(folder)
    with EmbeddedServer(tmp_path):
        pass
    with pytest.raises(EmbeddedServerMissing):
        EmbeddedServer.attach(tmp_path)


def test_of_many_starters_at_once_one_gets_the_folder(tmp_path: Path) -> None:
    outcomes: list[str] = []
    servers = [EmbeddedServer(tmp_path) for _ in range(4)]

    def start(server: EmbeddedServer) -> None:
        try:
            server.start()
            outcomes.append("started")
        except DataFolderInUse:
            outcomes.append("refused")

    threads = [threading.Thread(target=start, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server in servers:
        server.stop()
    assert sorted(outcomes) == ["refused", "refused", "refused", "started"]


def test_a_broken_data_file_is_reported_with_the_log(tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(EmbeddedServerFailed, match=r"valkey\.log") as failed:
        EmbeddedServer(tmp_path).start()
    assert "manifest" in str(failed.value).lower()
    with pytest.raises(EmbeddedServerMissing):  # and nothing runs there now
        EmbeddedServer.attach(tmp_path)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EmbeddedServerFailed, match="file"):
        EmbeddedServer(tmp_path / "file" / "data").start()


@pytest.mark.parametrize("content", [None, b"not a program"], ids=["missing", "unfit"])
def test_a_machine_that_cannot_run_it_is_told_what_to_do(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "valkey-server"
    if content is not None:
        program.write_bytes(content)
        program.chmod(0o755)
    monkeypatch.setattr(embedded, "_program", lambda: program)
    with pytest.raises(EmbeddedServerUnavailable, match="pass its URL"):
        EmbeddedServer(tmp_path / "data").start()


def _end_normally(parent: Child) -> None:
    parent.tell("\n")
    parent.ended()


def _kill(parent: Child) -> None:
    parent.kill()


@pytest.mark.parametrize("end", [_end_normally, _kill], ids=["exits", "is killed"])
def test_no_server_outlives_its_parent(end: Callable[[Child], None], tmp_path: Path) -> None:
    with Child(sys.executable, "-c", PARENT, tmp_path) as parent:
        pid, _port = map(int, parent.line().split())
        assert _alive(pid)
        end(parent)
    wait_until(lambda: not _alive(pid), "the server to end with its parent")
    with EmbeddedServer(tmp_path) as server:  # the folder is free again
        assert server.running


def test_ctrl_c_in_the_terminal_does_not_reach_it(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        assert os.getpgid(server.pid) != os.getpgid(0)


def test_a_forked_child_does_not_stop_the_server_of_its_parent(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        child = os.fork()
        if child == 0:
            server.stop()
            os._exit(0)
        os.waitpid(child, 0)
        assert server.running


def test_the_example_of_the_documentation_runs() -> None:
    assert doctest.testmod(embedded).failed == 0
    assert doctest.testmod(embedded).attempted > 0


def _alive(pid: int) -> bool:
    try:
        return "\tZ" not in f"\t{Path(f'/proc/{pid}/stat').read_text().rpartition(') ')[2]}"
    except FileNotFoundError:
        return False


async def _call(server: EmbeddedServer, *command: str) -> object:
    client = CLIENT.from_url(server.url, protocol=2)
    client.response_callbacks.clear()
    try:
        return await client.execute_command(*command)
    finally:
        await client.aclose()

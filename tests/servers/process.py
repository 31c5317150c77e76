"""One server process on loopback: its own port, its own folder, ended by its own pid."""

import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from redis import Connection, SSLConnection
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from tests.harness.leftovers import unmarked
from tests.pace import limit
from tests.servers.binary import Binary
from tests.servers.lifeline import Lifeline

START_TIMEOUT = 20.0

# Below the range the kernel hands out for outgoing connections, so that nobody takes the port of a server that is down.
_PORTS = range(20_000, 32_000)
_dice = random.SystemRandom()  # pytest-randomly seeds the usual one, and two runs on one machine would collide


class ServerFailed(Exception):
    """A server did not start or did not answer; the message ends with its log."""


def free_port() -> int:
    """A port nobody listens on now."""
    while True:
        port = _dice.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until(ready: Callable[[], bool], what: str, *, timeout: float = START_TIMEOUT) -> None:
    """Asks `ready` again and again until it says yes; `timeout` is that of a quiet machine."""
    timeout = limit(timeout)
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise ServerFailed(f"waited {timeout:.0f} s for {what}")
        time.sleep(0.005)


class ServerProcess:
    """Starts, stops, kills, pauses and restarts one server process; restarts keep the port and the folder."""

    arguments: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        binary: Binary,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="relevo-server-"))
        self.port = free_port()
        self._binary = binary
        self._settings = dict(settings or {})
        self._tls: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: Lifeline | None = None

    def configure(self, settings: Mapping[str, str], *, tls: Mapping[str, str]) -> None:
        """Replaces the settings before the first start; with `tls`, the port speaks TLS and these reach it."""
        self._settings = dict(settings)
        self._tls = dict(tls)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed("this server is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the process and waits until it answers PING; takes another port when this one was just taken."""
        for attempt in range(5):
            try:
                self._spawn()
                return
            except ServerFailed as failed:
                self.kill()
                if attempt == 4 or "Address already in use" not in str(failed):
                    raise
                self.port = free_port()

    def restart(self) -> None:
        """Stops (if it runs) and starts again on the same port and folder."""
        self.stop()
        self._spawn()

    def stop(self) -> None:
        """Asks the process to end (SIGTERM), which saves what is to be saved."""
        if self._process is None:
            return
        self._cut_lifeline()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)  # a paused process would never see the next signal
            self._process.terminate()
            try:
                self._process.wait(timeout=limit(15))
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Ends the process at once (SIGKILL): what is not on disk is lost."""
        if self._process is None:
            return
        self._cut_lifeline()
        self._process.kill()
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        """Stops the process in its tracks (SIGSTOP): connections stay open, nothing answers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a paused process go on (SIGCONT)."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stops the process and removes its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *command: str | bytes | int) -> Any:
        """One command over a connection of its own; the reply as RESP2 has it, nothing decoded."""
        with self.connected() as call:
            return call(*command)

    @contextmanager
    def connected(self) -> Generator[Callable[..., Any]]:
        """As `call`, for several commands on one connection: to make one takes longer than most commands."""
        connection: Any = self._connection()  # redis-py's annotations are incomplete here

        def call(*command: str | bytes | int) -> Any:
            connection.send_command(*command)
            return connection.read_response()

        try:
            connection.connect()
            yield call
        finally:
            connection.disconnect()

    def log(self, lines: int = 15) -> str:
        path = self.folder / "server.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else "(no log)"

    def settings(self) -> dict[str, str]:
        """The configuration file, line by line."""
        return {
            "bind": "127.0.0.1",
            "tls-port" if self._tls else "port": str(self.port),
            "dir": f'"{self.folder}"',
            "save": '""',
            "appendonly": "no",
            "shutdown-timeout": "0",  # a master would wait for its replicas
            "enable-debug-command": "yes",
            **self._settings,
        }

    def _spawn(self) -> None:
        with (self.folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*self._binary.command, str(self._config()), *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=unmarked(),
                start_new_session=True,  # Ctrl-C is for the test run; it stops the server in its own time
            )
        self._lifeline = Lifeline(self._process.pid, self.folder)
        try:
            wait_until(self._answers, f"the server on port {self.port}")
        except ServerFailed as failed:
            raise ServerFailed(f"{failed}; its log ends with:\n{self.log()}") from None

    def _config(self) -> Path:
        file = self.folder / "server.conf"
        file.write_text("".join(f"{name} {value}\n" for name, value in self.settings().items()))
        return file

    def _answers(self) -> bool:
        if not self.running:
            code = None if self._process is None else self._process.returncode
            raise ServerFailed(f"the server ended with {code} as soon as it was started")
        try:
            # Whoever answers must be the process we started, not another program that was faster to take the port.
            return self.call("PING") == b"PONG" and f"process_id:{self.pid}\r\n".encode() in self.call("INFO", "server")
        except RedisError:  # refused, or still loading its file
            return False

    def _connection(self) -> Connection:
        kind: Any = SSLConnection if self._tls else Connection
        return kind(
            host="127.0.0.1",
            port=self.port,
            protocol=2,
            socket_timeout=limit(10),
            retry=Retry(NoBackoff(), 0),
            driver_info=None,  # to look its own version up costs redis-py more than a connection, for each
            **self._tls,
        )

    def _cut_lifeline(self) -> None:
        if self._lifeline is not None:
            self._lifeline.cut()
            self._lifeline = None

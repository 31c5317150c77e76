"""PostgreSQL for tests: a server of its own in a temporary folder, from the programs that Debian's package installs."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from tests.servers.binary import ServerUnavailable
from tests.servers.process import ServerFailed, free_port, wait_until

_REMEDY = "install PostgreSQL (Debian: `apt-get install postgresql`), or put its `initdb` and `postgres` on the PATH"


class PostgresServer:
    """One PostgreSQL on loopback, without passwords; ended with `close`."""

    name = "postgres"

    def __init__(self) -> None:
        programs = _programs()
        self._user = _user()
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="relevo-postgres-"))
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._data = self._folder / "data"
        self._log = self._folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: subprocess.Popen[bytes] | None = None
        self._initialise(programs / "initdb")
        self._start(programs / "postgres")

    def url(self, driver: str) -> str:
        """SQLAlchemy's address of it, for `psycopg` or `asyncpg`."""
        return f"postgresql+{driver}://postgres@127.0.0.1:{self.port}/postgres"

    def close(self) -> None:
        if self._lifeline is not None:
            self._lifeline.kill()
            self._lifeline.communicate()
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # fast shutdown: does not wait for clients
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _initialise(self, initdb: Path) -> None:
        command = [str(initdb), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "-D", str(self._data)]
        done = subprocess.run(command, capture_output=True, text=True, user=self._user, cwd=self._folder, check=False)
        if done.returncode != 0:
            self.close()
            raise ServerUnavailable(f"initdb failed: {done.stderr.strip().splitlines()[-1:]}; {_REMEDY}")

    def _start(self, program: Path) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(str(program), "-D", str(self._data), "-p", str(self.port), "-k", str(self._folder)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                user=self._user,
                cwd=self._folder,
                start_new_session=True,
            )
        # When the test run dies without a word, the pipe closes and the shell ends the server.
        self._lifeline = subprocess.Popen(
            ["/bin/sh", "-c", f"read _; kill -INT {self._process.pid}"], stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            wait_until(self._answers, "PostgreSQL", timeout=30)
        except ServerFailed as failed:
            said = self._log.read_text(errors="replace")[-1500:]
            self.close()
            raise ServerUnavailable(f"{failed}; its log ends with:\n{said}") from None

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise ServerFailed("PostgreSQL ended as soon as it was started")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self._folder / f".s.PGSQL.{self.port}"))
            except OSError:
                return False
        return "ready to accept connections" in self._log.read_text(errors="replace")


def _programs() -> Path:
    """The folder of `initdb` and `postgres`: Debian keeps them off the PATH, one folder for each version."""
    newest_first = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True)
    found = shutil.which("initdb")
    for folder in ([Path(found).resolve().parent] if found else []) + newest_first:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise ServerUnavailable(f"this machine has no PostgreSQL; {_REMEDY}")


def _user() -> str | None:
    """PostgreSQL refuses to run as root: then its package's own user runs it."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise ServerUnavailable(f"root cannot run PostgreSQL, and there is no user postgres; {_REMEDY}") from None

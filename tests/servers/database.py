"""A SQL database of a test run: one process on loopback with a folder of its own, ended by its own pid."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from tests.harness.leftovers import MARK
from tests.pace import limit
from tests.servers.binary import ServerUnavailable
from tests.servers.lifeline import Lifeline
from tests.servers.process import ServerFailed, free_port, wait_until
from tests.servers.programs import Database, Programs, programs_of


class DatabaseServer(ABC):
    """Made by its constructor, without passwords; ended with `close`. Raises ServerUnavailable."""

    name: ClassVar[str]
    kind: ClassVar[Database]
    ends_with: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, programs: Programs | None = None) -> None:
        self.programs = programs or programs_of(self.kind)
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"relevo-{self.name}-"))
        self.data = self.folder / "data"
        self._log = self.folder / "server.log"
        user = self._other_user()
        self._uid, self._gid = (None, None) if user is None else (user.pw_uid, user.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: Lifeline | None = None
        try:
            if self._uid is not None and self._gid is not None:
                os.chown(self.folder, self._uid, self._gid)
            self._initialise()
            self._start()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def url(self, driver: str) -> str:
        """SQLAlchemy's address of it, for one of its drivers."""

    @abstractmethod
    def initialiser(self) -> list[str]:
        """The command that makes the data folder."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command that starts the server."""

    @abstractmethod
    def answers(self, log: str) -> bool:
        """Whether it can be used; `log` is what it has written so far."""

    def refuses_root(self) -> bool:
        return False

    def kill(self) -> None:
        """As `kill -9`: no word, no last wish. Its data stay for `start_again`."""
        assert self._process is not None
        if self._lifeline is not None:
            self._lifeline.cut()
            self._lifeline = None
        listing = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        helpers = listing.read_text().split() if listing.exists() else []
        self._process.kill()
        self._process.wait()
        self._process = None
        wait_until(lambda: not any(map(_runs, helpers)), self.name)  # they notice by themselves

    def start_again(self) -> None:
        """After `kill`, on the same port and data."""
        self._start()

    def close(self) -> None:
        if self._lifeline is not None:
            self._lifeline.cut()
            self._lifeline = None
        if self._process is not None:
            self._process.send_signal(self.ends_with)
            try:
                self._process.wait(limit(15))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initialise(self) -> None:
        done = subprocess.run(
            self.initialiser(),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=self._environment(),
            user=self._uid,
            group=self._gid,
        )
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
            raise ServerUnavailable(f"its data folder cannot be made: {' / '.join(said)}; {self.kind.remedy}")

    def _environment(self) -> dict[str, str]:
        """With a folder of its own for what is temporary: a MariaDB that starts removes what others have in a shared one. And
        without the mark of the run: the lifeline ends it."""
        inherited = {name: value for name, value in self.programs.environment.items() if name != MARK}
        return {**inherited, "TMPDIR": str(self.folder)}

    def _start(self) -> None:
        with self._log.open("wb") as log:
            self._process = process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._environment(),
                user=self._uid,
                group=self._gid,
                start_new_session=True,
            )
        self._lifeline = Lifeline(process.pid, self.folder, self.ends_with)
        try:
            wait_until(self._ready, self.name, timeout=60)
        except ServerFailed as failed:
            said = self._log.read_text(errors="replace")[-1500:]
            raise ServerUnavailable(f"{failed}; its log ends with:\n{said}") from None

    def _ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise ServerFailed(f"{self.name} ended with {self._process.returncode} as soon as it was started")
        return self.answers(self._log.read_text(errors="replace"))

    def _other_user(self) -> pwd.struct_passwd | None:
        """Who runs it instead of root: the package's own user, else the one that owns nothing."""
        if os.getuid() != 0 or not self.refuses_root():
            return None
        for name in (self.name, "nobody"):
            try:
                return pwd.getpwnam(name)
            except KeyError:
                continue
        raise ServerUnavailable(f"root cannot run {self.name}, and there is no user {self.name} or nobody")


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

"""`relevo serve` in a process of its own: started, killed, started again on the same database."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

RELEVO = (sys.executable, "-m", "relevo")


class ServeProcess:
    """A running `relevo serve`; `url` is where it listens, `key` the operator's, of the tenant `main`."""

    def __init__(self, database_url: str, *options: str, port: int = 0, key: str | None = None) -> None:
        self.database_url = database_url
        self.options = options
        self.port = port
        is_file = database_url.startswith("sqlite")
        self.key = key or (furnished(database_url) if is_file else first_key(database_url))
        self.start()

    def start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RELEVO_")}
        self.process = subprocess.Popen(
            [*RELEVO, "serve", "--database-url", self.database_url, "--port", str(self.port), *self.options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found is not None, line + (self.process.stderr.read() if self.process.stderr else "")
        self.url, self.port = found[0], int(found[1])

    def kill(self) -> None:
        """As `kill -9`: no word, no last wish."""
        self.process.kill()
        self._closed()

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code and what it said on stderr."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self._closed()

    def _closed(self) -> None:
        self.process.wait(30)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


_first: list[tuple[bytes, str]] = []


def furnished(database_url: str) -> str:
    """As `first_key` of a new SQLite file; all but the first of a process are copies, since that takes seconds."""
    file = Path(database_url.removeprefix("sqlite:///"))
    if not _first:
        key = first_key(database_url)
        _first.append((file.read_bytes(), key))
        return key
    content, key = _first[0]
    file.write_bytes(content)
    return key


def first_key(database_url: str, tenant: str = "main") -> str:
    """Makes the tables, a tenant and its operator's key, as the manual says."""
    for command in (["db", "upgrade"], ["work", "keys", "first", tenant, "--operator", "--json"]):
        done = subprocess.run(
            [*RELEVO, *command, "--database-url", database_url], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["secret"]


def sqlite_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'work.db'}"

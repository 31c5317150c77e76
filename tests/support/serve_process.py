"""`relevo serve` in a process of its own: started, killed, started again on the same database."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

from tests.servers.child import Child

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
        command = ("serve", "--database-url", self.database_url, "--port", str(self.port), *self.options)
        self.child = Child(*RELEVO, *command, env=environment)
        line = self.child.line()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found is not None, line + self.child.err
        self.said, self.url, self.port = line, found[0], int(found[1])

    def kill(self) -> None:
        """As `kill -9`: no word, no last wish."""
        self.child.kill()

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code and what it said on stderr."""
        return self.child.end(number, timeout=60), self.child.err

    def close(self) -> None:
        self.child.close()


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
        done = Child.run(*RELEVO, *command, "--database-url", database_url)
        assert done.code == 0, done.err
    return json.loads(done.out)["secret"]


def sqlite_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'work.db'}"

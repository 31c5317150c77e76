"""The databases of the bench, with real fsync."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import tempfile

from benchmarks.work.footprint import cpu_s
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer


class DurablePostgres(PostgresServer):
    """Commits reach the disk, memory as a small server would give it."""

    def command(self) -> list[str]:
        kept = _without(super().command(), ("-c", "fsync=off"))
        return [*kept, "-c", "fsync=on", "-c", "shared_buffers=256MB", "-c", "max_connections=200"]

    def cpu_s(self) -> float:
        assert self._process is not None
        return cpu_s(self._process.pid)


class DurableMariaDb(MariaDbServer):
    """Commits reach the disk."""

    def command(self) -> list[str]:
        dropped = ("--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite", "--innodb-buffer-pool-size=64M")
        kept = [word for word in super().command() if word not in dropped]
        return [*kept, "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M", "--max-connections=200"]

    def cpu_s(self) -> float:
        assert self._process is not None
        return cpu_s(self._process.pid)


def _without(words: list[str], pair: tuple[str, str]) -> list[str]:
    for at in range(len(words) - 1):
        if (words[at], words[at + 1]) == pair:
            return words[:at] + words[at + 2 :]
    return words


class Store:
    """One kind of database for one run of the bench."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder = tempfile.TemporaryDirectory(prefix="relevo-bench-")
        kinds: dict[str, type[DurablePostgres | DurableMariaDb]] = {
            "postgresql": DurablePostgres,
            "mariadb": DurableMariaDb,
        }
        self.server = kinds[name]() if name in kinds else None
        self._databases = 0

    def fresh(self) -> str:
        """The URL of a database with nothing in it."""
        self._databases += 1
        name = f"bench{self._databases}"
        if self.server is None:
            return f"sqlite:///{self._folder.name}/{name}.db"
        self.server.create(name)
        return self.server.url("asyncpg" if self.name == "postgresql" else "asyncmy", name)

    def cpu_s(self) -> float:
        """CPU seconds of the database's own processes so far; SQLite has none, it is in `serve`."""
        return 0.0 if self.server is None else self.server.cpu_s()

    def version(self) -> str:
        if self.server is None:
            return f"SQLite {sqlite3.sqlite_version}"
        program = self.server.command()[0]
        its_own = self.server.programs.environment
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, env=its_own)
        found = re.search(r"\d+\.\d+(\.\d+)?(-MariaDB)?", told.stdout)
        return found[0] if found else "unknown"

    def close(self) -> None:
        if self.server is not None:
            self.server.close()
        self._folder.cleanup()

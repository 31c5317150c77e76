"""The databases of the bench, with real fsync, and `relevo serve` on each of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.servers.database import DatabaseServer
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer

RELEVO = (sys.executable, "-m", "relevo")
LOAD = Path(__file__).with_name("load.py")


class DurablePostgres(PostgresServer):
    """Commits reach the disk, memory as a small server would give it."""

    def command(self) -> list[str]:
        kept = _without(super().command(), ("-c", "fsync=off"))
        return [*kept, "-c", "fsync=on", "-c", "shared_buffers=256MB", "-c", "max_connections=200"]


class DurableMariaDb(MariaDbServer):
    """Commits reach the disk."""

    def command(self) -> list[str]:
        dropped = ("--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite", "--innodb-buffer-pool-size=64M")
        kept = [word for word in super().command() if word not in dropped]
        return [*kept, "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M", "--max-connections=200"]


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
        kinds: dict[str, type[DatabaseServer]] = {"postgresql": DurablePostgres, "mariadb": DurableMariaDb}
        self.server: Any = kinds[name]() if name in kinds else None
        self._databases = 0

    def fresh(self) -> str:
        """The URL of a database with nothing in it."""
        self._databases += 1
        name = f"bench{self._databases}"
        if self.server is None:
            return f"sqlite:///{self._folder.name}/{name}.db"
        self.server.create(name)
        return self.server.url("asyncpg" if self.name == "postgresql" else "asyncmy", name)

    def close(self) -> None:
        if self.server is not None:
            self.server.close()
        self._folder.cleanup()


class Served:
    """`relevo serve` with its agents on a fresh database: everything on, as a user runs it."""

    def __init__(self, database_url: str, redis_url: str, *, processes: int = 1) -> None:
        _relevo("db", "upgrade", "--database-url", database_url)
        self.key: str = json.loads(_relevo("work", "keys", "first", "main", "--json", "--database-url", database_url))[
            "secret"
        ]
        command = [*RELEVO, "serve", "--database-url", database_url, "--redis-url", redis_url, "--port", "0"]
        self._process = subprocess.Popen(
            [*command, "--processes", str(processes)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self._process.stdout.readline())
        if found is None:
            raise RuntimeError(self._process.communicate()[1])
        self.url, self.port = found[0], int(found[1])
        self._work("create-scope", "bench")

    def queue(self, name: str) -> None:
        self._work("create-queue", "bench", name)

    def load(self, case: str, queue: str, *, connections: int, count: int, size: int = 1) -> dict[str, float]:
        asked = {
            "host": "127.0.0.1", "port": self.port, "key": self.key, "case": case, "queue": queue,
            "connections": connections, "count": count, "size": size,
        }  # fmt: skip
        cpu = self.cpu_s()
        done = subprocess.run(
            [sys.executable, str(LOAD)],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-600:])
        measured: dict[str, float] = json.loads(done.stdout)
        measured["cpu_us"] = (self.cpu_s() - cpu) / count * 1e6
        return measured

    def cpu_s(self) -> float:
        """CPU seconds of the server's processes so far."""
        ticks = os.sysconf("SC_CLK_TCK")
        total = 0.0
        for pid in [self._process.pid, *_children(self._process.pid)]:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
        return total

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=60)

    def _work(self, *words: str) -> None:
        _relevo("work", "--url", self.url, "--key", self.key, *words)


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def _relevo(*words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RELEVO_")}
    done = subprocess.run([*RELEVO, *words], capture_output=True, text=True, timeout=120, check=False, env=environment)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-600:])
    return done.stdout

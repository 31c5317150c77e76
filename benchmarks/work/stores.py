"""The databases of the bench, with real fsync, and `relevo serve` on each of them."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.servers.database import DatabaseServer
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer

RELEVO = (sys.executable, "-m", "relevo")
LOAD = Path(__file__).with_name("load.py")
_IDLE = 0.15
"""Share of a core that a server uses when it has nothing left to do but its rounds."""


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

    def version(self) -> str:
        if self.server is None:
            return f"SQLite {sqlite3.sqlite_version}"
        program = self.server.command()[0]
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        found = re.search(r"\d+\.\d+(\.\d+)?(-MariaDB)?", told.stdout)
        return found[0] if found else "unknown"

    def close(self) -> None:
        if self.server is not None:
            self.server.close()
        self._folder.cleanup()


class Served:
    """`relevo serve` with its agents on a fresh database: everything on, as a user runs it."""

    def __init__(self, database_url: str, redis_url: str, *, processes: int = 1, options: tuple[str, ...] = ()) -> None:
        _relevo("db", "upgrade", "--database-url", database_url)
        first = _relevo("work", "keys", "first", "main", "--json", "--database-url", database_url)
        self.key: str = json.loads(first)["secret"]
        command = [*RELEVO, "serve", "--database-url", database_url, "--redis-url", redis_url, "--port", "0", *options]
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [*command, "--processes", str(processes)], stdout=subprocess.PIPE, stderr=self._said, text=True
        )
        assert self._process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self._process.stdout.readline())
        if found is None:
            self._process.kill()
            self._said.seek(0)
            raise RuntimeError(f"serve did not say where it listens: {self._said.read().strip()[-300:]}")
        self.url, self.port = found[0], int(found[1])
        self._post("/v1/scopes", {"slug": "bench"})

    def queue(self, name: str) -> None:
        self._post("/v1/scopes/bench/queues", {"slug": name, "visibility_timeout_s": 3600})

    def load(self, case: str, queue: str, *, connections: int, count: int, size: int = 1) -> dict[str, float]:
        """Puts a load on it; with what the server and the load cost in CPU microseconds a message."""
        asked = {
            "host": "127.0.0.1",
            "port": self.port,
            "key": self.key,
            "case": case,
            "queue": queue,
            "connections": connections,
            "count": count,
            "size": size,
        }
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
            raise RuntimeError(f"{case}: {done.stderr.strip().splitlines()[-1][-400:]}")
        measured: dict[str, float] = json.loads(done.stdout)
        measured["cpu_us"] = (self.cpu_s() - cpu) / count * 1e6
        return measured

    def settled(self) -> None:
        """Waits until it has caught up: events of what was published still leave the outbox."""
        for _ in range(600):
            cpu = self.cpu_s()
            time.sleep(0.5)
            if self.cpu_s() - cpu < _IDLE / 2:
                return
        raise RuntimeError("the server has not come to rest within five minutes")

    def cpu_s(self) -> float:
        """CPU seconds of the server's processes so far."""
        ticks = os.sysconf("SC_CLK_TCK")
        total = 0.0
        for pid in [self.pid, *_children(self.pid)]:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
        return total

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=60)
        self._said.close()

    def _post(self, path: str, body: dict[str, Any]) -> None:
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)  # noqa: S310 - loopback
        urllib.request.urlopen(request, timeout=60).close()  # noqa: S310


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def _relevo(*words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RELEVO_")}
    done = subprocess.run([*RELEVO, *words], capture_output=True, text=True, timeout=120, check=False, env=environment)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-600:])
    return done.stdout

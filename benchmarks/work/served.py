"""`relevo serve` of any version on a fresh database, with its agents and a Redis of its own, and the load that is put on it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.work.footprint import cpu_s, forget_peak, peak_mb
from benchmarks.work.stores import Store
from benchmarks.work.version import Version, this_checkout
from tests.servers.server import EmbeddedValkey

LOAD = Path(__file__).with_name("load.py")
_REST = 0.2
"""Share of a core that a server and its database may use together when they have nothing left to do but their rounds."""


class Served:
    """A server that is measured: everything on, as a user runs it. `close` ends it."""

    def __init__(self, store: Store, version: Version | None = None, *, beside: Served | None = None) -> None:
        """With `beside` it is a second process on that one's database and Redis, which has to end after it."""
        self.version = version or this_checkout()
        self.store = store
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        self._redis: EmbeddedValkey | None = None
        if beside is not None:
            self.database_url, self.redis_url, self.key = beside.database_url, beside.redis_url, beside.key
            self._many = beside._many
            self.start()
            return
        self._redis = EmbeddedValkey()
        self.database_url = store.fresh()
        self._relevo("db", "upgrade", "--database-url", self.database_url)
        words = ("work", "keys", "first", "main", "--operator", "--json", "--database-url", self.database_url)
        self.key: str = json.loads(self._relevo(*words))["secret"]
        self._redis.start()
        self.redis_url = self._redis.url
        try:
            self.start()
            self.post("/v1/scopes", {"slug": "bench"})
            self.queue("warm")
            self._many = self._name_of_many()
        except BaseException:
            self._redis.close()
            raise

    def start(self) -> None:
        """Starts it, for the first time or again on what it left."""
        places = ("--database-url", self.database_url, "--redis-url", self.redis_url, "--port", "0")
        self._process = subprocess.Popen(
            [*self._words, "serve", *places], stdout=subprocess.PIPE, stderr=self._said, text=True, env=_environment()
        )
        self.url, self.port = self._address()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def queue(self, name: str, **settings: Any) -> None:
        self.post("/v1/scopes/bench/queues", {"slug": name, "visibility_timeout_s": 3600, **settings})

    def warm(self) -> None:
        """Prepared statements, caches, connections: what a server that has run for a minute has."""
        self.load("single", "warm", connections=50, count=1_000)
        self.load("batch", "warm", connections=4, count=2_000, size=500)
        self.load("drain", "warm", connections=4, count=2_000, size=50)

    def load(self, case: str, queue: str, *, connections: int, count: int, **asked: Any) -> dict[str, Any]:
        """Puts a load on it. With the rate comes what the server, its database and the load use for a message, in µs of CPU."""
        asked |= {
            "host": "127.0.0.1",
            "port": self.port,
            "key": self.key,
            "case": case,
            "queue": queue,
            "connections": connections,
            "count": count,
            "many": self._many,
        }
        own, database = self.cpu_s(), self.store.cpu_s()
        forget_peak(self._process.pid)
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
        measured: dict[str, Any] = json.loads(done.stdout)
        messages = measured.get("count", count)
        measured["cpu_us"] = (self.cpu_s() - own) / messages * 1e6
        measured["database_cpu_us"] = (self.store.cpu_s() - database) / messages * 1e6
        measured["memory_mb"] = self.peak_mb()
        return measured

    def settled(self, at_most_s: float = 300.0) -> None:
        """Waits until it and its database have caught up: events of what was published still leave the outbox."""
        for _ in range(int(at_most_s / 0.5)):
            before = self.cpu_s() + self.store.cpu_s()
            time.sleep(0.5)
            if self.cpu_s() + self.store.cpu_s() - before < _REST / 2:
                return
        raise RuntimeError(f"the server has not come to rest within {at_most_s:.0f} seconds")

    def cpu_s(self) -> float:
        """CPU seconds of the server's processes so far."""
        return cpu_s(self._process.pid)

    def peak_mb(self) -> float:
        """The most memory since it was started, or since the last load began."""
        return peak_mb(self._process.pid)

    def post(self, path: str, body: Any) -> Any:
        return self._ask(path, json.dumps(body).encode())

    def get(self, path: str) -> Any:
        return self._ask(path, None)

    def close(self) -> None:
        try:
            self.stop()
        finally:
            self._said.close()
            if self._redis is not None:
                self._redis.close()

    def _ask(self, path: str, body: bytes | None) -> Any:
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers)  # noqa: S310 - loopback
        with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310
            return json.load(answer)

    def _address(self) -> tuple[str, int]:
        assert self._process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self._process.stdout.readline())
        if found is None:
            self._process.kill()
            self._process.wait()
            self._said.seek(0)
            raise RuntimeError(f"serve did not say where it listens: {self._said.read().strip()[-300:]}")
        return found[0], int(found[1])

    def _name_of_many(self) -> str:
        """What this version calls the list of a batch."""
        for name in ("items", "messages"):
            try:
                self.post("/v1/scopes/bench/queues/warm/messages/batch", {name: [{"body": 1}]})
            except urllib.error.HTTPError as error:
                if error.code not in (400, 422):
                    raise
            else:
                return name
        raise RuntimeError(f"{self.version.name} takes no batch that this bench knows")

    @property
    def _words(self) -> tuple[str, ...]:
        return (str(self.version.python), "-m", "relevo")

    def _relevo(self, *words: str) -> str:
        done = subprocess.run(
            [*self._words, *words], capture_output=True, text=True, timeout=120, check=False, env=_environment()
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-600:])
        return done.stdout


def _environment() -> dict[str, str]:
    """Without settings that whoever runs the bench has for a server of their own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RELEVO_")}

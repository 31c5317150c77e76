"""Answers a platform's probes and Prometheus over HTTP: `/healthz`, `/readyz`, `/metrics`. Nothing else, and no framework."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, cast

from relevo.arguments import checked_name, instance, positive
from relevo.engine.worker import Worker
from relevo.errors import CannotListen, WrongType
from relevo.metrics.metrics import CONTENT_TYPE, Metrics

log = logging.getLogger("relevo.health")

_PATIENCE_S = 5.0
_HEAD_BYTES = 8192
_AT_ONCE = 64

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Answer(NamedTuple):
    """What goes back."""

    status: int
    body: bytes
    content_type: str = "application/json"

    @staticmethod
    def of(status: int, /, **fields: Any) -> Answer:
        return Answer(status, json.dumps(fields).encode() + b"\n")

    def packed(self, *, with_body: bool) -> bytes:
        head = (
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (self.body if with_body else b"")


class HealthServer:
    """Serves the workers of this process, on their event loop: a loop that stands still answers nothing.

    - `/healthz`: 200 while the loop turns. For a liveness probe, which restarts the process.
    - `/readyz`: 200 while every worker can claim jobs, else 503 with the reason of each. A paused worker can claim, and is
      told not to. For a readiness probe and for alarms; restarting does not bring Redis back.
    - `/metrics`: the numbers of `metrics`, for Prometheus; 404 without.

    On this machine only, unless told otherwise: it asks nobody who they are.
    """

    def __init__(
        self, workers: Sequence[Worker], *, port: int, host: str = "127.0.0.1", metrics: Metrics | None = None
    ) -> None:
        self._workers = _checked(workers)
        self._host = checked_name("host", host)
        self._port = positive("port", port, zero=True)
        self._metrics = None if metrics is None else instance("metrics", metrics, Metrics)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens; the one that was found when 0 was asked for."""
        return self._port

    async def start(self) -> None:
        try:
            self._server = await asyncio.start_server(self._accept, self._host, self._port, limit=_HEAD_BYTES)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CannotListen(host=self._host, port=self._port, reason=reason) from error
        self._port = int(self._server.sockets[0].getsockname()[1])
        log.info("health and metrics on http://%s:%d", self._host, self._port)

    async def stop(self) -> None:
        """Listens no more; answers under way are given."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        if self._open:
            await asyncio.wait(self._open, timeout=_PATIENCE_S)
        await server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- one request -----------------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= _AT_ONCE:  # a client that leaves connections open must not use up our file handles
            writer.transport.abort()
            return
        self._open.add(task)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._serve(reader, writer)
        except (TimeoutError, OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            head = b""
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        target, _, version = rest.partition(" ")
        if not version.startswith("HTTP/1"):
            answer = Answer.of(400, error="not an HTTP/1 request")
        elif method not in ("GET", "HEAD"):
            answer = Answer.of(405, error=f"{method} is not answered here, GET is")
        else:
            answer = self._answer(target.partition("?")[0])
        writer.write(answer.packed(with_body=method != "HEAD"))
        await writer.drain()

    def _answer(self, path: str) -> Answer:
        try:
            if path == "/healthz":
                return Answer.of(200, status="alive")
            if path == "/readyz":
                return self._ready()
            if path == "/metrics" and self._metrics is not None:
                return Answer(200, self._metrics.text(), CONTENT_TYPE)
        except Exception:
            log.exception("%s could not be answered", path)
            return Answer.of(500, error="see the log")
        return Answer.of(404, error="there are /healthz, /readyz and /metrics")

    def _ready(self) -> Answer:
        states = [(worker.name, worker.health()) for worker in self._workers]
        ready = bool(states) and all(health.can_claim for _, health in states)
        told = [
            {"queue": queue, "can_claim": health.can_claim, "reason": health.reason, "running": health.running}
            for queue, health in states
        ]
        return Answer.of(200 if ready else 503, status="ready" if ready else "not ready", workers=told)


def _checked(workers: object) -> Sequence[Worker]:
    if not isinstance(workers, Sequence) or isinstance(workers, str | bytes):
        remedy = "Pass [worker]." if isinstance(workers, Worker) else ""
        raise WrongType(argument="workers", value=workers, expected="a list of Worker", remedy=remedy)
    return [instance("workers element", each, Worker) for each in cast("Sequence[object]", workers)]

"""The HTTP server: uvicorn inside our own event loop, so that agents and API share a process and end in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator

import uvicorn

from relevo.api.fast_routes import FastRoutes
from relevo.api.protocol import FastProtocol
from relevo.errors import CannotListen

log = logging.getLogger("relevo.api")

_BACKLOG = 2048


class HttpServer:
    """Listens between `start` and `stop`. A stop answers waiting claims at once, lets others finish, then closes."""

    def __init__(self, app: FastRoutes, *, host: str, port: int, shared: bool = False, grace_s: float = 20.0) -> None:
        self._app = app
        self._host = host
        self._wanted = port
        self._shared = shared
        self._grace_s = grace_s
        self._server: _Server | None = None
        self._running: asyncio.Task[None] | None = None
        self.port = port
        """Where it listens; the one that was found when 0 was asked for."""

    async def start(self) -> None:
        listening = listen(self._host, self._wanted, shared=self._shared)
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            http=FastProtocol,
            loop="none",
            lifespan="off",
            ws="none",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(self._grace_s),
            h11_max_incomplete_event_size=65_536,
        )
        self._server = server = _Server(config)
        self._running = asyncio.create_task(server.serve(sockets=[listening]), name="relevo-http")
        begun = asyncio.ensure_future(server.begun.wait())
        await asyncio.wait({begun, self._running}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if self._running.done():
            self._running.result()
        log.debug("work queues on http://%s:%d", self._host, self.port)

    async def stop(self) -> None:
        if self._server is None or self._running is None:
            return
        self._app.stop()
        self._server.should_exit = True
        await self._running
        self._server = self._running = None

    def trouble(self) -> str | None:
        """Why it does not listen any more; None while it does."""
        if self._running is None or not self._running.done():
            return None
        error = None if self._running.cancelled() else self._running.exception()
        return f"the HTTP server ended: {error or 'without a word'}"


class _Server(uvicorn.Server):
    """Signals are the business of whoever started us; that it has begun to listen is told by an event."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound socket. `shared`: several processes bind the same port, and the kernel spreads connections over them."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotListen(host=host, port=port, reason=reason) from error
    bound.setblocking(False)
    return bound

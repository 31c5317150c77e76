"""What `relevo serve` and `relevo agents` share: their options, their log, and a run that ends with a signal."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from relevo.errors import DependencyMissing

if TYPE_CHECKING:
    from relevo.api.service import WorkService

DEFAULT_PORT = 6391

RedisUrl = Annotated[
    str | None,
    typer.Option("--redis-url", envvar="RELEVO_REDIS_URL", help="Keeps the order of messages; without one SQL does."),
]
ClaimPath = Annotated[
    Literal["index", "sql"],
    typer.Option(envvar="RELEVO_CLAIM_PATH", help="Where claims ask for the order: sql, or index (Redis)."),
]
WebhookAllow = Annotated[
    list[str] | None,
    typer.Option(
        "--webhook-allow",
        envvar="RELEVO_WEBHOOK_ALLOW",
        help="A private host or network that webhooks may be sent to; may be repeated.",
    ),
]
StreamQueue = Annotated[
    list[str] | None,
    typer.Option(
        "--stream-queue",
        envvar="RELEVO_STREAM_QUEUES",
        help="A stream queue that rules and reviews may use: a name or a pattern (`emails-*`), for one tenant as "
        "`acme=emails-*`; may be repeated.",
    ),
]
Upgrade = Annotated[
    bool | None,
    typer.Option("--upgrade/--no-upgrade", help="Upgrade the tables first. By default only for SQLite."),
]


def require_server_extra() -> None:
    for package in ("alembic", "fastapi", "sqlalchemy", "uvicorn"):
        if find_spec(package) is None:
            raise DependencyMissing(what="`relevo serve`", package=package, extra="relevo[server]")


def log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    for chatty in ("alembic", "httpcore", "httpx", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def run_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs it on uvloop where that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def serve_until_told(
    service: WorkService, started: Callable[[], None] = lambda: None, *, ends_with_stdin: bool = False
) -> int:
    """Runs a service until a signal, or until it cannot go on; the exit code of the process."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    if ends_with_stdin:  # whoever started us holds the other end: without them we end too
        os.set_blocking(0, False)
        loop.add_reader(0, lambda: None if os.read(0, 100) else (loop.remove_reader(0), told.set()))
    trouble: str | None = None
    try:
        await service.start()
        _spare_the_collector()
        started()
        while not told.is_set() and trouble is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await told.wait()
            trouble = service.trouble()
    finally:
        await service.stop()
    if trouble is not None:
        logging.getLogger("relevo.serve").error("%s", trouble)
        return 1
    return 0


def _spare_the_collector() -> None:
    """What is there now stays for ever and need not be looked through again; and a batch of a thousand messages makes thousands
    of objects that go by themselves. As Python comes, looking for cycles takes a sixth of a busy server's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)

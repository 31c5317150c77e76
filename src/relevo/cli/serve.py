"""`relevo serve`: work queues over HTTP, with their agents. `relevo agents`: the agents alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from relevo import version
from relevo.cli.screen import say
from relevo.cli.server import server_of
from relevo.errors import BadArgument, DependencyMissing

DEFAULT_DATABASE = "sqlite:///data/work.db"
DEFAULT_PORT = 6391

DatabaseUrl = Annotated[
    str,
    typer.Option(
        envvar="RELEVO_DATABASE_URL", help="sqlite:///path, mariadb://user:password@host/name or postgresql://…"
    ),
]
RedisUrl = Annotated[
    str | None,
    typer.Option("--redis-url", envvar="RELEVO_REDIS_URL", help="Keeps the order of messages; without one SQL does."),
]
ClaimPath = Annotated[
    str, typer.Option(envvar="RELEVO_CLAIM_PATH", help="Where claims ask for the order: auto, index or sql.")
]
WebhookAllow = Annotated[
    list[str] | None,
    typer.Option(
        "--webhook-allow",
        envvar="RELEVO_WEBHOOK_ALLOW",
        help="A host or network that webhooks may go to although it is not of the public internet; may be repeated.",
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
    typer.Option("--upgrade/--no-upgrade", help="Bring the tables up to date first. By default only for SQLite."),
]


def serve(
    ctx: typer.Context,
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    redis_url: RedisUrl = None,
    host: Annotated[
        str, typer.Option(envvar="RELEVO_HOST", help="Where to listen; only this machine by default.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="RELEVO_PORT", help="0 finds a free one.", min=0, max=65535)
    ] = DEFAULT_PORT,
    processes: Annotated[
        int, typer.Option(envvar="RELEVO_PROCESSES", help="Processes that share the port.", min=1, max=64)
    ] = 1,
    agents: Annotated[bool, typer.Option("--agents/--no-agents", help="Run the agents here too.")] = True,
    claim_path: ClaimPath = "auto",
    webhook_allow: WebhookAllow = None,
    stream_queue: StreamQueue = None,
    upgrade: Upgrade = None,
    max_message_bytes: Annotated[int, typer.Option(envvar="RELEVO_MAX_MESSAGE_BYTES", min=1024)] = 1_048_576,
    max_batch_bytes: Annotated[int, typer.Option(envvar="RELEVO_MAX_BATCH_BYTES", min=1024)] = 8 * 1_048_576,
    metrics_token: Annotated[
        str | None, typer.Option(envvar="RELEVO_METRICS_TOKEN", help="Asked for at /metrics; needed beyond loopback.")
    ] = None,
    member: Annotated[bool, typer.Option("--member", hidden=True)] = False,
) -> None:
    """Serve work queues over HTTP until Ctrl-C or SIGTERM: requests are finished, waiting claims answered at once."""
    _log()
    _require_server_extra()
    redis_url = redis_url or server_of(ctx).given
    if claim_path not in ("auto", "index", "sql"):
        raise typer.BadParameter(f"{claim_path!r} is not one of auto, index, sql", param_hint="--claim-path")
    if processes > 1:
        from relevo.api.service import prepare
        from relevo.cli.serve_processes import Processes

        if database_url.startswith("sqlite"):
            remedy = "Use MariaDB or PostgreSQL for more, or one process."
            reason = "SQLite is written by one process at a time"
            raise BadArgument(argument="processes", value=processes, reason=reason, remedy=remedy)
        run_loop(prepare(database_url, upgrade=upgrade))
        crew = Processes(processes, host, port, announce=_say_where)
        raise typer.Exit(asyncio.run(crew.run()))  # uvloop cannot give processes a group of their own

    from relevo.api.service import ServiceSettings, WorkService, is_loopback
    from relevo.api.settings import ApiSettings
    from relevo.console.app import make_console
    from relevo.work.office import OfficeSettings

    settings = ServiceSettings(
        office=OfficeSettings(
            database_url=database_url,
            redis_url=redis_url,
            claim_path=claim_path,
            max_body_bytes=max_message_bytes,
            webhook_allow=tuple(webhook_allow or ()),
            stream_queues=tuple(stream_queue or ()),
        ),
        api=ApiSettings(
            max_message_bytes=max_message_bytes,
            max_batch_bytes=max_batch_bytes,
            metrics_token=metrics_token,
            metrics_open=is_loopback(host),
        ),
        host=host,
        port=port,
        agents=agents,
        upgrade=upgrade,
        shared_port=member,
        version=version(),
    )
    announce = None if member else _say_where
    raise typer.Exit(
        run_loop(_until_told(WorkService(settings, console=make_console), announce, ends_with_stdin=member))
    )


def agents(
    ctx: typer.Context,
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    redis_url: RedisUrl = None,
    claim_path: ClaimPath = "auto",
    webhook_allow: WebhookAllow = None,
    stream_queue: StreamQueue = None,
    upgrade: Upgrade = None,
) -> None:
    """Run the agents of work queues alone, beside `relevo serve --no-agents`. Several share the work."""
    _log()
    _require_server_extra()
    redis_url = redis_url or server_of(ctx).given
    from relevo.api.service import ServiceSettings, WorkService
    from relevo.work.office import OfficeSettings

    if claim_path not in ("auto", "index", "sql"):
        raise typer.BadParameter(f"{claim_path!r} is not one of auto, index, sql", param_hint="--claim-path")
    office = OfficeSettings(
        database_url=database_url,
        redis_url=redis_url,
        claim_path=claim_path,
        webhook_allow=tuple(webhook_allow or ()),
        stream_queues=tuple(stream_queue or ()),
    )
    settings = ServiceSettings(office=office, http=False, upgrade=upgrade, version=version())
    raise typer.Exit(
        run_loop(_until_told(WorkService(settings), None, said="the agents are at work; Ctrl-C ends them"))
    )


def run_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs it on uvloop where that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def _until_told(
    service: Any, announce: Callable[[str], None] | None, *, ends_with_stdin: bool = False, said: str = ""
) -> int:
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
        if announce is not None:
            announce(service.url)
        elif said:
            say(said)
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


def _log() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    for chatty in ("alembic", "httpcore", "httpx", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _say_where(url: str) -> None:
    say(f"work queues on {url}  (console: {url}/console, API reference: {url}/docs; Ctrl-C ends them)")
    sys.stdout.flush()


def _require_server_extra() -> None:
    try:
        import alembic
        import fastapi
        import sqlalchemy
        import uvicorn
    except ImportError as error:
        raise DependencyMissing(what="`relevo serve`", package=error.name or "", extra="relevo[server]") from error
    del alembic, fastapi, sqlalchemy, uvicorn

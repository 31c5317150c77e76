"""`relevo serve`: work queues over HTTP, with their agents."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from relevo import version
from relevo.cli.database.connection import DEFAULT_DATABASE, DatabaseUrl
from relevo.cli.servers.work_service import (
    DEFAULT_PORT,
    ClaimPath,
    RedisUrl,
    StreamQueue,
    Upgrade,
    WebhookAllow,
    log_to_stderr,
    require_server_extra,
    run_loop,
    serve_until_told,
)
from relevo.cli.shell.output import say
from relevo.cli.shell.redis_server import server_of
from relevo.errors import BadArgument


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
    claim_path: ClaimPath = "sql",
    webhook_allow: WebhookAllow = None,
    stream_queue: StreamQueue = None,
    upgrade: Upgrade = None,
    max_message_bytes: Annotated[int, typer.Option(envvar="RELEVO_MAX_MESSAGE_BYTES", min=1024)] = 1_048_576,
    max_batch_bytes: Annotated[int, typer.Option(envvar="RELEVO_MAX_BATCH_BYTES", min=1024)] = 8 * 1_048_576,
    metrics_token: Annotated[
        str | None, typer.Option(envvar="RELEVO_METRICS_TOKEN", help="Required at /metrics; needed beyond loopback.")
    ] = None,
    member: Annotated[bool, typer.Option("--member", hidden=True)] = False,
) -> None:
    """Serve work queues over HTTP until Ctrl-C or SIGTERM: requests are finished, waiting claims answered at once."""
    log_to_stderr()
    require_server_extra()
    redis_url = redis_url or server_of(ctx).given
    if processes > 1:
        from relevo.api.service import prepare
        from relevo.cli.servers.serve_processes import serve_processes

        if database_url.startswith("sqlite"):
            remedy = "Use MariaDB or PostgreSQL for more, or one process."
            reason = "SQLite is written by one process at a time"
            raise BadArgument(argument="processes", value=processes, reason=reason, remedy=remedy)
        run_loop(prepare(database_url, upgrade=upgrade))
        # On asyncio's own loop: uvloop cannot give processes a group of their own.
        raise typer.Exit(asyncio.run(serve_processes(processes, host, port, _say_where)))

    from relevo.api.service import ServiceSettings, WorkService, is_loopback
    from relevo.api.settings import ApiSettings
    from relevo.console.app import make_console
    from relevo.work.work_queues import WorkSettings

    settings = ServiceSettings(
        work_queues=WorkSettings(
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
    service = WorkService(settings, console=make_console)

    def started() -> None:
        if not member:
            _say_where(service.url)

    raise typer.Exit(run_loop(serve_until_told(service, started, ends_with_stdin=member)))


def _say_where(url: str) -> None:
    say(f"work queues on {url}  (console: {url}/console, API reference: {url}/docs; Ctrl-C stops them)")
    sys.stdout.flush()

"""`relevo agents`: the agents of work queues alone, without HTTP."""

from __future__ import annotations

import typer

from relevo import version
from relevo.cli.database.connection import DEFAULT_DATABASE, DatabaseUrl
from relevo.cli.servers.work_service import (
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


def agents(
    ctx: typer.Context,
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    redis_url: RedisUrl = None,
    claim_path: ClaimPath = "sql",
    webhook_allow: WebhookAllow = None,
    stream_queue: StreamQueue = None,
    upgrade: Upgrade = None,
) -> None:
    """Run the agents of work queues alone, beside `relevo serve --no-agents`. Several share the work."""
    log_to_stderr()
    require_server_extra()
    from relevo.api.service import ServiceSettings, WorkService
    from relevo.work.work_queues import WorkSettings

    work_queues = WorkSettings(
        database_url=database_url,
        redis_url=redis_url or server_of(ctx).given,
        claim_path=claim_path,
        webhook_allow=tuple(webhook_allow or ()),
        stream_queues=tuple(stream_queue or ()),
    )
    service = WorkService(ServiceSettings(work_queues=work_queues, http=False, upgrade=upgrade, version=version()))
    raise typer.Exit(run_loop(serve_until_told(service, lambda: say("the agents are running; Ctrl-C stops them"))))

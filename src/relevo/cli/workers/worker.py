"""`relevo worker`: runs your tasks, in one process or in several under a supervisor."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from pathlib import Path
from typing import Annotated, Any

import typer

from relevo import logs
from relevo.arguments import checked_queue_name
from relevo.cli.shell.completion import complete_queue
from relevo.cli.shell.redis_server import server_of
from relevo.cli.workers.reload import changed_files
from relevo.cli.workers.supervisor import Supervisor, start_process
from relevo.cli.workers.worker_options import OBSERVING, with_worker_options
from relevo.cli.workers.worker_process import run_worker_process
from relevo.cli.workers.worker_spec import WorkerSpec
from relevo.engine.consuming.worker_options import PROCESSES


@with_worker_options
def worker(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME", help="A Tasks object, a Batch, or a function that takes a Job.", show_default=False
        ),
    ],
    queues: Annotated[
        list[str],
        typer.Option("--queue", "-q", help="A queue to work on; may be repeated.", autocompletion=complete_queue),
    ],
    options: dict[str, Any],
    processes: Annotated[
        int, typer.Option("--processes", "-p", help="Worker processes.", min=1, rich_help_panel=PROCESSES)
    ] = 1,
    max_jobs: Annotated[
        int | None,
        typer.Option(
            help="Replace a process after this many runs, once its running jobs are done.",
            min=1,
            rich_help_panel=PROCESSES,
        ),
    ] = None,
    max_rss: Annotated[
        int | None,
        typer.Option(help="Replace a process over this many MB of memory.", min=1, rich_help_panel=PROCESSES),
    ] = None,
    reload: Annotated[
        bool,
        typer.Option("--reload", help="Restart when a .py file below this folder changes.", rich_help_panel=PROCESSES),
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="Answer /metrics, /healthz and /readyz here; further processes on the ports behind it.",
            min=0,
            max=65535,
            rich_help_panel=OBSERVING,
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="The address for --metrics-port.", rich_help_panel=OBSERVING)
    ] = "127.0.0.1",
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.", rich_help_panel=OBSERVING)] = "INFO",
    json_logs: Annotated[
        bool, typer.Option("--json-logs", help="Log one JSON object a line.", rich_help_panel=OBSERVING)
    ] = False,
) -> None:
    """Run your tasks until Ctrl-C: the first lets running jobs finish, the second stops now."""
    server = server_of(ctx)
    spec = WorkerSpec(
        target,
        tuple(dict.fromkeys(checked_queue_name(queue) for queue in queues)),
        server.url,
        options,
        max_jobs=max_jobs,
        max_rss_mb=max_rss,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        log_level=log_level,
        json_logs=json_logs,
    )
    logs.configure(json=json_logs, level=log_level)
    server.must_answer(spec.queues[0])
    if processes > 1 or reload or max_jobs is not None or max_rss is not None:
        code = asyncio.run(_supervise(spec, processes, reload))
    else:
        code = run_worker_process(spec)
    if code:
        raise typer.Exit(code)


async def _supervise(spec: WorkerSpec, size: int, reload: bool) -> int:
    async def start(number: int) -> Process:
        return await start_process("relevo.cli.workers.child", said=spec.for_child(number).written + "\n")

    changes = changed_files(Path.cwd()) if reload else None
    return await Supervisor(start, size, changes=changes).run()

"""`relevo add`: put a job, or many, into a queue by hand."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relevo.cli.queues.arguments import QueueName
from relevo.cli.shell.durations import date, span_ms
from relevo.cli.shell.json_text import read_json
from relevo.cli.shell.output import Json, complain_at_length, count, one_line, print_json, say, show
from relevo.cli.shell.redis_server import server_of
from relevo.engine.job.job import Job
from relevo.errors import BadArgument, JobDead

if TYPE_CHECKING:
    from relevo.engine.queue import Queue

_NO_RESULT = "done, without a result: the handler returned None, or its worker runs without --store-results"
_BULK = 500


def add(
    ctx: typer.Context,
    queue: QueueName,
    name: Annotated[str, typer.Argument(help="The job's name.", show_default=False)],
    data: Annotated[str, typer.Argument(help="Its data as JSON; `-` reads stdin.")] = "null",
    delay: Annotated[str | None, typer.Option(help='Run it after this long: "90s", "2h".')] = None,
    at: Annotated[str | None, typer.Option(help="Run it at this time: 2026-01-31T08:00:00Z.")] = None,
    attempts: Annotated[int | None, typer.Option(help="Runs before it is dead-lettered.", min=1)] = None,
    backoff_ms: Annotated[int | None, typer.Option(help="Fixed pause before each retry.", min=0)] = None,
    job_id: Annotated[str | None, typer.Option(help="Your own id: adding the same id again does nothing.")] = None,
    lane: Annotated[str | None, typer.Option(help="The lane it takes its turn in, such as a tenant's id.")] = None,
    lines: Annotated[bool, typer.Option(help="Read stdin: each line is the data of one job.")] = False,
    wait: Annotated[
        float | None,
        typer.Option(help="Wait at most this many seconds for the job to end, and print its result.", min=0.1),
    ] = None,
    as_json: Json = False,
) -> None:
    """Add a job; with --lines, one for each line of stdin."""
    options: dict[str, Any] = {"attempts": attempts, "backoff": backoff_ms, "lane": lane, **_when(delay, at)}
    if lines and (job_id is not None or wait is not None):
        raise BadArgument(
            argument="--lines", value=True, reason="--job-id and --wait are for one job", remedy="Drop one."
        )
    server = server_of(ctx)
    if lines:
        added = server.ask(queue, lambda opened: _add_lines(opened, name, options, as_json))
        if not as_json:
            say(f"added {count(added)} jobs to {queue}")
        return
    content = read_json(sys.stdin.read() if data == "-" else data, "DATA")
    job, result, dropped = server.ask(
        queue, lambda opened: _add_one(opened, name, content, options | {"job_id": job_id}, wait)
    )
    added_line = f"added {job.id} to {queue}"
    if wait is None:
        show(_as_dict(queue, job), as_json, added_line)
    else:
        result_line = (dropped or _NO_RESULT) if result is None else f"result: {one_line(result)}"
        show({**_as_dict(queue, job), "result": result}, as_json, added_line, result_line)


async def _add_one(
    queue: Queue, name: str, data: Any, options: dict[str, Any], wait: float | None
) -> tuple[Job, Any, str | None]:
    """The job, its result, and why a job that is done has none, where that is known."""
    job = await queue.add(name, data, **options)
    result = None if wait is None else await _result(job, wait)
    dropped = None
    if wait is not None and result is None:
        found = await queue.jobs.find(job.id)
        if found.state == "completed" and found.failure is not None:
            dropped = f"done, and its result was dropped: {found.failure.error}"
    return job, result, dropped


async def _result(job: Job, wait: float) -> Any:
    try:
        return await job.wait_for_result(timeout=wait)
    except JobDead as dead:
        if dead.traceback:
            complain_at_length(dead.traceback)
        raise


async def _add_lines(queue: Queue, name: str, options: dict[str, Any], as_json: bool) -> int:
    added, bulk = 0, list[dict[str, Any]]()

    async def send() -> None:
        for job in await queue.add_bulk(bulk):
            if as_json:
                print_json(_as_dict(queue.name, job), lines=True)
        bulk.clear()

    for at, line in enumerate(sys.stdin, start=1):
        if not line.strip():
            continue
        bulk.append({"name": name, "data": read_json(line, f"line {at}"), **options})
        added += 1
        if len(bulk) == _BULK:
            await send()
    if bulk:
        await send()
    return added


def _when(delay: str | None, at: str | None) -> dict[str, timedelta | datetime]:
    if delay is not None and at is not None:
        raise BadArgument(argument="--at", value=at, reason="--delay is given as well", remedy="Pass one of them.")
    if delay is not None:
        return {"delay": timedelta(milliseconds=span_ms("--delay", delay))}
    return {"delay_ms": date("--at", at)} if at is not None else {}


def _as_dict(queue: str, job: Job) -> dict[str, Any]:
    return {"queue": queue, "id": job.id, "name": job.name, "created_at_ms": job.created_at_ms}

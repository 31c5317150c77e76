"""`relevo job`: one job by its id, and jobs by their state."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from relevo.cli.queues.arguments import JobId, QueueName
from relevo.cli.shell.output import Json, console, moment, print_json, readable, say, table
from relevo.cli.shell.prompts import Yes, ask
from relevo.cli.shell.redis_server import Server, run, server_of
from relevo.engine.dead_letters import DeadLetter, DeadLetterFilter
from relevo.engine.introspection import JobPage
from relevo.engine.job_search import FoundJob
from relevo.engine.validation import checked_job_id
from relevo.errors import BadArgument
from relevo.wire.failure import Failure

app = typer.Typer(help="Jobs: list, show, logs, progress, cancel, retry, remove.", no_args_is_help=True)

_FAR = 1_000_000
_CUT = 60


@app.command("list")
def list_(
    ctx: typer.Context,
    queue: QueueName,
    state: Annotated[str, typer.Option(help="waiting, active, delayed, failed or completed.")] = "waiting",
    limit: Annotated[int, typer.Option(help="How many, the oldest first.", min=1)] = 20,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    as_json: Json = False,
) -> None:
    """Show jobs of one state."""
    page = run(_page(server_of(ctx), queue, state, limit, cursor))
    if as_json:
        jobs = [
            {
                "id": job.id,
                "name": job.name,
                "attempts_made": job.attempts_made,
                "created_at_ms": job.created_at_ms,
                "data": job.data,
            }
            for job in page.jobs
        ]
        print_json({"queue": queue, "state": state, "jobs": jobs, "cursor": page.cursor})
        return
    if not page.jobs:
        say(f"no {state} jobs in {queue}")
        return
    made = table("id", "name", "runs", "created", "data", title=f"{state} jobs of {queue}", numbers=("runs",))
    for job in page.jobs:
        text = json.dumps(readable(job.data), ensure_ascii=False)
        made.add_row(
            job.id, job.name or "-", str(job.attempts_made), moment(job.created_at_ms) if job.created_at_ms else "-",
            text if len(text) <= _CUT else text[: _CUT - 1] + "…",
        )  # fmt: skip
    console().print(made)
    if page.cursor is not None:
        say(f"more with --cursor '{page.cursor}'")


@app.command()
def show(ctx: typer.Context, queue: QueueName, job_id: JobId, as_json: Json = False) -> None:
    """Show where a job is, its data, its runs, how the last one failed, its progress and its result."""
    told = run(_show(server_of(ctx), queue, checked_job_id(job_id)))
    if as_json:
        print_json(told)
        return
    failure = told.pop("last_failure")
    trace = None
    if failure is not None:
        trace = failure["traceback"]
        if told["detail"] is None:
            told["last_error"] = failure["error"]
        told["failed_at"] = failure["at"]
    made = table("", "", title=f"job {job_id} of {queue}")
    made.show_header = False
    for label, value in told.items():
        if value is not None and label not in ("queue", "id"):
            text = value if isinstance(value, str) else json.dumps(readable(value), ensure_ascii=False)
            made.add_row(label.replace("_", " "), text)
    console().print(made)
    if trace:
        say(trace)


@app.command()
def logs(
    ctx: typer.Context,
    queue: QueueName,
    job_id: JobId,
    last: Annotated[int | None, typer.Option(help="Only the last lines.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Print the lines the job wrote with `job.log`."""
    lines, total = run(_lines(server_of(ctx), queue, job_id, last))
    if as_json:
        print_json({"queue": queue, "id": job_id, "lines": lines, "total": total})
        return
    for line in lines:
        say(line)
    if not total:
        say(f"job {job_id} has written no log, or it has expired", "dim")


@app.command()
def progress(ctx: typer.Context, queue: QueueName, job_id: JobId, as_json: Json = False) -> None:
    """Print how far the job says it is."""
    percent = run(_progress(server_of(ctx), queue, job_id))
    if as_json:
        print_json({"queue": queue, "id": job_id, "progress": percent})
    else:
        say(f"{percent} %" if percent is not None else f"job {job_id} has not told its progress")


@app.command()
def cancel(ctx: typer.Context, queue: QueueName, job_id: JobId, yes: Yes = False, as_json: Json = False) -> None:
    """Cancel a job that is delayed, waits or runs."""
    state = run(_cancel(server_of(ctx), queue, checked_job_id(job_id), yes))
    if as_json:
        print_json({"queue": queue, "id": job_id, "was": state, "cancelled": True})
    else:
        ends = {"active": "its run is being cancelled", "waiting": "it will not start"}
        say(f"job {job_id} was {state}: {ends.get(state, 'it was taken back')}")


@app.command()
def retry(ctx: typer.Context, queue: QueueName, job_id: JobId, as_json: Json = False) -> None:
    """Send a dead job back to the queue with a fresh budget of attempts."""
    run(_retry(server_of(ctx), queue, checked_job_id(job_id)))
    if as_json:
        print_json({"queue": queue, "id": job_id, "retried": True})
    else:
        say(f"job {job_id} is back in {queue}")


@app.command()
def remove(ctx: typer.Context, queue: QueueName, job_id: JobId, yes: Yes = False, as_json: Json = False) -> None:
    """Remove a job that does not run, from wherever it is; its id may then be used again."""
    report = run(_remove(server_of(ctx), queue, checked_job_id(job_id), yes))
    if as_json:
        print_json({"queue": queue, "id": job_id, "removed_from": report})
    else:
        say(f"job {job_id} was removed from {', '.join(place for place, there in report.items() if there)}")


async def _page(server: Server, queue: str, state: str, limit: int, cursor: str | None) -> JobPage:
    async with server.queue(queue) as opened:
        return await opened.get_jobs_page(state, limit=limit, cursor=cursor)


async def _show(server: Server, queue: str, job_id: str) -> dict[str, Any]:
    async with server.queue(queue) as opened:
        found = await opened.jobs.find(job_id, most=_FAR)
        letter = (await opened.dead_letters.peek(1, DeadLetterFilter(job_ids=(job_id,)))) if found.letters else []
        percent = await opened.get_job_progress(job_id)
        _, lines = await opened.get_job_logs(job_id)
        result = await opened.get_job_result(job_id) if found.result else None
    if found.state == "unknown" and percent is None and not lines:
        raise _not_found(queue, job_id, found)
    job = found.job
    known = job is not None and found.state != "completed"
    return {
        "queue": queue,
        "id": job_id,
        "state": found.state,
        "name": job.name if known and job else None,
        "data": job.data if known and job else None,
        "attempts_made": found.attempts_made,
        "created": moment(job.created_at_ms) if job and job.created_at_ms else None,
        "next_run": None if found.run_at_ms is None else moment(found.run_at_ms),
        "place": _place(found),
        "progress": percent,
        "log_lines": lines or None,
        "result": result,
        **_death(letter),
        "last_failure": _failure(found.failure),
    }


def _place(found: FoundJob) -> str | None:
    """Where its bytes are, for whoever wants to look with redis-cli."""
    if found.state in ("active", "waiting"):
        return f"stream, entry {found.entries[0].decode()}" if found.entries else "its lane"
    if found.state == "failed":
        return f"dead letters, entry {found.letters[0].decode()}"
    return {"delayed": "delayed set", "completed": "results"}.get(found.state)


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "attempt": failure.attempt,
        "at": moment(failure.at_ms),
        "error": failure.error,
        "traceback": failure.traceback or None,
    }


def _death(letters: list[DeadLetter]) -> dict[str, Any]:
    if not letters:
        return {"dead_since": None, "reason": None, "detail": None}
    return {"dead_since": moment(letters[0].at_ms), "reason": letters[0].reason, "detail": letters[0].detail}


async def _lines(server: Server, queue: str, job_id: str, last: int | None) -> tuple[list[str], int]:
    async with server.queue(queue) as opened:
        return await opened.get_job_logs(job_id, start=-last if last else 0)


async def _progress(server: Server, queue: str, job_id: str) -> int | None:
    async with server.queue(queue) as opened:
        return await opened.get_job_progress(job_id)


async def _cancel(server: Server, queue: str, job_id: str, yes: bool) -> str:
    async with server.queue(queue) as opened:
        found = await opened.jobs.find(job_id, most=_FAR)
        if found.state == "unknown":
            raise _not_found(queue, job_id, found)
        if found.state in ("failed", "completed"):
            remedy = "There is nothing to cancel." if found.state == "completed" else "Use `relevo job remove`."
            raise BadArgument(argument="ID", value=job_id, reason=f"the job is {found.state}", remedy=remedy)
        if not yes:
            ask(f"cancel the {found.state} job {job_id} of {queue}?")
        await opened.cancel(job_id)
        return found.state


async def _retry(server: Server, queue: str, job_id: str) -> None:
    async with server.queue(queue) as opened:
        if await opened.replay_dlq(1, job_ids=[job_id]):
            return
        found = await opened.jobs.find(job_id, most=_FAR)
        if found.state == "unknown":
            raise _not_found(queue, job_id, found)
        remedy = "Only dead jobs can be retried; the others are retried by themselves."
        raise BadArgument(argument="ID", value=job_id, reason=f"the job is {found.state}", remedy=remedy)


async def _remove(server: Server, queue: str, job_id: str, yes: bool) -> dict[str, bool]:
    async with server.queue(queue) as opened:
        found = await opened.jobs.find(job_id, most=_FAR)
        if found.state == "unknown":
            raise _not_found(queue, job_id, found)
        if not yes:
            ask(f"remove the {found.state} job {job_id} of {queue}?")
        removal = await opened.maintenance.remove(job_id, most=_FAR)
        if removal.running and not removal.count:
            remedy = "Cancel it with `relevo job cancel`, then remove it."
            raise BadArgument(argument="ID", value=job_id, reason="a worker runs it", remedy=remedy)
        return removal.as_report()


def _not_found(queue: str, job_id: str, found: FoundJob) -> BadArgument:
    reason = f"queue {queue!r} has no such job" + ("" if found.complete else " among the first million")
    remedy = (
        "A finished job leaves nothing but its result, and that only for a while: `relevo events` tells what happens."
    )
    return BadArgument(argument="ID", value=job_id, reason=reason, remedy=remedy)

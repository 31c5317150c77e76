"""`relevo job`: one job by its id, and jobs by their state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from relevo.cli.queues.arguments import JobId, QueueName
from relevo.cli.shell.output import Json, moment, one_line, show, table
from relevo.cli.shell.prompts import Yes, confirm
from relevo.cli.shell.redis_server import server_of
from relevo.engine.admin.dead_letters import DeadLetter, DeadLetterFilter
from relevo.engine.admin.job_search import FoundJob
from relevo.errors import BadArgument
from relevo.wire.envelope_encoder import checked_job_id
from relevo.wire.failure import Failure

if TYPE_CHECKING:
    from relevo.engine.queue import Queue

app = typer.Typer(help="Jobs: list, show, logs, progress, cancel, retry, remove.", no_args_is_help=True)

_FAR = 1_000_000
_CUT = 60


@app.command("list")
def list_(
    ctx: typer.Context,
    queue: QueueName,
    state: Annotated[str, typer.Option(help="waiting, active, delayed, failed or completed.")] = "waiting",
    limit: Annotated[int, typer.Option(help="How many, the oldest first.", min=1)] = 20,
    cursor: Annotated[str | None, typer.Option(help="Where the last page ended.")] = None,
    as_json: Json = False,
) -> None:
    """Show jobs of one state."""
    page = server_of(ctx).ask(queue, lambda opened: opened.get_jobs_page(state, limit=limit, cursor=cursor))
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
    made = table("id", "name", "runs", "created", "data", title=f"{state} jobs of {queue}", numbers=("runs",))
    for job in page.jobs:
        made.add_row(
            job.id,
            job.name or "-",
            str(job.attempts_made),
            moment(job.created_at_ms or None),
            one_line(job.data, _CUT),
        )
    shown = made if page.jobs else f"no {state} jobs in {queue}"
    more = None if page.cursor is None else f"more with --cursor '{page.cursor}'"
    show({"queue": queue, "state": state, "jobs": jobs, "cursor": page.cursor}, as_json, shown, more)


@app.command("show")
def show_job(ctx: typer.Context, queue: QueueName, job_id: JobId, as_json: Json = False) -> None:
    """Show where a job is, its data, its runs, how the last one failed, its progress and its result."""
    told = server_of(ctx).ask(queue, lambda opened: _found(opened, checked_job_id(job_id)))
    show(told, as_json, *_rows_and_trace(queue, told))


def _rows_and_trace(queue: str, told: dict[str, Any]) -> tuple[Table, str | None]:
    """A job for people, and below it how its last run failed."""
    told = dict(told)
    failure = told.pop("last_failure")
    trace = None
    if failure is not None:
        trace = failure["traceback"]
        if told["detail"] is None:
            told["last_error"] = failure["error"]
        told["failed_at"] = failure["at"]
    made = table("", "", title=f"job {told['id']} of {queue}")
    made.show_header = False
    for label, value in told.items():
        if value is not None and label not in ("queue", "id"):
            made.add_row(label.replace("_", " "), value if isinstance(value, str) else one_line(value))
    return made, trace


@app.command()
def logs(
    ctx: typer.Context,
    queue: QueueName,
    job_id: JobId,
    last: Annotated[int | None, typer.Option(help="Only the last lines.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Print the lines the job wrote with `job.log`."""
    first = -last if last else 0
    lines, total = server_of(ctx).ask(queue, lambda opened: opened.get_job_logs(job_id, start=first))
    none = None if total else Text(f"job {job_id} has no log, or its log has expired", "dim")
    show({"queue": queue, "id": job_id, "lines": lines, "total": total}, as_json, *lines, none)


@app.command()
def progress(ctx: typer.Context, queue: QueueName, job_id: JobId, as_json: Json = False) -> None:
    """Print the progress that the job has reported."""
    percent = server_of(ctx).ask(queue, lambda opened: opened.get_job_progress(job_id))
    words = f"{percent} %" if percent is not None else f"job {job_id} has not reported any progress"
    show({"queue": queue, "id": job_id, "progress": percent}, as_json, words)


@app.command()
def cancel(ctx: typer.Context, queue: QueueName, job_id: JobId, yes: Yes = False, as_json: Json = False) -> None:
    """Cancel a job that is delayed, waits or runs."""
    state = server_of(ctx).ask(queue, lambda opened: _cancel(opened, checked_job_id(job_id), yes))
    ends = {"active": "its run is being cancelled", "waiting": "it will not start"}
    words = f"job {job_id} was {state}: {ends.get(state, 'it will not run')}"
    show({"queue": queue, "id": job_id, "was": state, "cancelled": True}, as_json, words)


@app.command()
def retry(ctx: typer.Context, queue: QueueName, job_id: JobId, as_json: Json = False) -> None:
    """Send a dead job back to the queue with a fresh budget of attempts."""
    server_of(ctx).ask(queue, lambda opened: _retry(opened, checked_job_id(job_id)))
    show({"queue": queue, "id": job_id, "retried": True}, as_json, f"job {job_id} moved back to {queue}")


@app.command()
def remove(ctx: typer.Context, queue: QueueName, job_id: JobId, yes: Yes = False, as_json: Json = False) -> None:
    """Remove a job that is not running, wherever it is; its id may then be used again."""
    report = server_of(ctx).ask(queue, lambda opened: _remove(opened, checked_job_id(job_id), yes))
    places = ", ".join(place for place, there in report.items() if there)
    show({"queue": queue, "id": job_id, "removed_from": report}, as_json, f"job {job_id} was removed from {places}")


async def _found(queue: Queue, job_id: str) -> dict[str, Any]:
    found = await queue.jobs.find(job_id, most=_FAR)
    letter = (await queue.dead_letters.peek(1, DeadLetterFilter(job_ids=(job_id,)))) if found.letters else []
    percent = await queue.get_job_progress(job_id)
    _, lines = await queue.get_job_logs(job_id)
    result = await queue.get_job_result(job_id) if found.result else None
    if found.state == "unknown" and percent is None and not lines:
        raise _not_found(queue, job_id, found)
    job = found.job
    known = job is not None and found.state != "completed"
    return {
        "queue": queue.name,
        "id": job_id,
        "state": found.state,
        "name": job.name if known and job else None,
        "data": job.data if known and job else None,
        "attempts_made": found.attempts_made,
        "created": moment(job.created_at_ms) if job and job.created_at_ms else None,
        "next_run": None if found.run_at_ms is None else moment(found.run_at_ms),
        "refused": _refused(found),
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


def _refused(found: FoundJob) -> str | None:
    if found.refused_s is None:
        return None
    return f"for {found.refused_s:.0f} s now, by workers that have no task of this name"


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


async def _cancel(queue: Queue, job_id: str, yes: bool) -> str:
    found = await _known(queue, job_id)
    if found.state in ("failed", "completed"):
        remedy = "There is nothing to cancel." if found.state == "completed" else "Use `relevo job remove`."
        raise BadArgument(argument="ID", value=job_id, reason=f"the job is {found.state}", remedy=remedy)
    confirm(f"cancel the {found.state} job {job_id} of {queue.name}?", yes=yes)
    await queue.cancel(job_id)
    return found.state


async def _retry(queue: Queue, job_id: str) -> None:
    if await queue.replay_dlq(1, job_ids=[job_id]):
        return
    found = await _known(queue, job_id)
    remedy = "Only dead jobs can be retried; all others are retried automatically."
    raise BadArgument(argument="ID", value=job_id, reason=f"the job is {found.state}", remedy=remedy)


async def _remove(queue: Queue, job_id: str, yes: bool) -> dict[str, bool]:
    found = await _known(queue, job_id)
    confirm(f"remove the {found.state} job {job_id} of {queue.name}?", yes=yes)
    removal = await queue.maintenance.remove(job_id, most=_FAR)
    if removal.running and not removal.count:
        remedy = "Cancel it with `relevo job cancel`, then remove it."
        raise BadArgument(argument="ID", value=job_id, reason="a worker is running it", remedy=remedy)
    return removal.as_report()


async def _known(queue: Queue, job_id: str) -> FoundJob:
    found = await queue.jobs.find(job_id, most=_FAR)
    if found.state == "unknown":
        raise _not_found(queue, job_id, found)
    return found


def _not_found(queue: Queue, job_id: str, found: FoundJob) -> BadArgument:
    reason = f"queue {queue.name!r} has no such job" + ("" if found.complete else " among the first million")
    remedy = "A finished job leaves only its result, and only for a while: `relevo events` shows what happens."
    return BadArgument(argument="ID", value=job_id, reason=reason, remedy=remedy)

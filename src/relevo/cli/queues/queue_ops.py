"""`relevo pause`, `resume`, `drain`, `clean`, `obliterate`: what is done to a queue as a whole."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from relevo.cli.queues.arguments import QueueName
from relevo.cli.shell.durations import span_ms
from relevo.cli.shell.output import Json, count, show
from relevo.cli.shell.prompts import DryRun, Yes, busy, confirm
from relevo.cli.shell.redis_server import server_of
from relevo.engine.admin.dead_letters import DeadLetterFilter
from relevo.engine.admin.job_pages import STATES
from relevo.errors import BadArgument

if TYPE_CHECKING:
    from relevo.engine.queue import Queue

_AT_ONCE = 1000


def pause(ctx: typer.Context, queue: QueueName, as_json: Json = False) -> None:
    """Stop all workers of a queue; running jobs finish, new ones may be added and wait."""
    server_of(ctx).ask(queue, lambda opened: opened.pause())
    paused = f"queue {queue} paused; resume it with `relevo resume {queue}`"
    show({"queue": queue, "paused": True}, as_json, paused)


def resume(ctx: typer.Context, queue: QueueName, as_json: Json = False) -> None:
    """Let the workers of a paused queue work again."""
    server_of(ctx).ask(queue, lambda opened: opened.resume())
    show({"queue": queue, "paused": False}, as_json, f"queue {queue} resumed")


def drain(
    ctx: typer.Context,
    queue: QueueName,
    delayed: Annotated[bool, typer.Option(help="Delayed jobs and retries too.")] = True,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove all jobs that have not started; running ones, dead letters and schedules stay."""
    removed = server_of(ctx).ask(queue, lambda opened: _drain(opened, delayed, yes, as_json))
    show({"queue": queue, "removed": removed}, as_json, f"removed {count(removed)} jobs from {queue}")


def clean(
    ctx: typer.Context,
    queue: QueueName,
    state: Annotated[str, typer.Option(help="waiting, delayed, failed or completed.")] = "completed",
    grace: Annotated[str, typer.Option(help='Keep those younger than this: "90s", "2h", "3d".')] = "0s",
    limit: Annotated[int, typer.Option(help="How many at most, the oldest first.", min=1)] = 100_000,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove old jobs of one state: results of completed ones, dead letters, or jobs that have not started."""
    if state not in STATES or state == "active":
        remedy = "Use waiting, delayed, failed or completed; what runs is cancelled with `relevo job cancel`."
        raise BadArgument(argument="--state", value=state, reason="cannot be cleaned", remedy=remedy)
    grace_ms = span_ms("--grace", grace)
    server = server_of(ctx)
    if dry_run:
        meant = server.ask(queue, lambda opened: _old(opened, state, grace_ms, limit))
        would = f"would remove up to {count(meant)} {state} jobs of {queue}"
        show({"queue": queue, "state": state, "would": "clean", "count": meant}, as_json, would)
        return
    removed = server.ask(queue, lambda opened: _clean(opened, state, grace_ms, limit, yes, as_json))
    done = f"removed {count(removed)} {state} jobs of {queue}"
    show({"queue": queue, "state": state, "removed": removed}, as_json, done)


def obliterate(
    ctx: typer.Context,
    queue: QueueName,
    force: Annotated[bool, typer.Option("--force", help="Also while workers hold jobs.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete a queue with everything in it: jobs, dead letters, results, events, schedules."""
    deleted = server_of(ctx).ask(queue, lambda opened: _obliterate(opened, force, yes, as_json))
    done = f"queue {queue} deleted ({count(deleted)} keys)" if deleted else f"queue {queue} does not exist"
    show({"queue": queue, "deleted_keys": deleted}, as_json, done)


async def _drain(queue: Queue, delayed: bool, yes: bool, quiet: bool) -> int:
    if not yes:
        seen = await queue.stats()
        meant = seen.waiting + (seen.delayed if delayed else 0)
        confirm(f"remove about {count(meant)} jobs of {queue.name} that have not started?")
    async with busy(f"draining {queue.name}", quiet=quiet):
        return await queue.drain(delayed)


async def _clean(queue: Queue, state: str, grace_ms: int, limit: int, yes: bool, quiet: bool) -> int:
    removed = 0
    if not yes:
        meant = await _old(queue, state, grace_ms, limit)
        if meant:
            confirm(f"remove up to {count(meant)} {state} jobs of {queue.name}?")
    async with busy(f"cleaning {queue.name}", quiet=quiet):
        while removed < limit:
            gone = len(await queue.clean(grace_ms, min(_AT_ONCE, limit - removed), state))
            removed += gone
            if gone == 0:
                break
    return removed


async def _old(queue: Queue, state: str, grace_ms: int, limit: int) -> int:
    """How many `clean` would look at: dead letters by when they died, the others by when they were created, which is never
    later than the time `clean` goes by."""
    before = int(time.time() * 1000) - grace_ms
    if state == "failed":
        return len(await queue.dead_letters.peek(limit, DeadLetterFilter(until_ms=before)))
    found, cursor = 0, None
    while found < limit:
        page = await queue.get_jobs_page(state, limit=_AT_ONCE, cursor=cursor)
        if state == "completed" and grace_ms == 0:
            found += len(page.jobs)
        else:
            found += sum(0 < job.created_at_ms <= before for job in page.jobs)
        cursor = page.cursor
        if cursor is None:
            break
    return min(found, limit)


async def _obliterate(queue: Queue, force: bool, yes: bool, quiet: bool) -> int:
    if not yes:
        seen = await queue.stats()
        held = f"{count(seen.waiting)} waiting, {count(seen.delayed)} delayed, {count(seen.dead)} dead jobs"
        confirm(f"delete queue {queue.name} with {held} and {count(seen.repeatable)} schedules, permanently?")
    async with busy(f"deleting {queue.name}", quiet=quiet):
        return await queue.obliterate(force=force)

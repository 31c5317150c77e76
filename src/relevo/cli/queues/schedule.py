"""`relevo schedule`, also called `relevo repeatable`: the schedules of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from relevo.cli.queues.arguments import QueueName
from relevo.cli.shell.durations import date_ms, span_ms
from relevo.cli.shell.json_text import read_json
from relevo.cli.shell.output import Json, moment, show, span, table
from relevo.cli.shell.prompts import Yes, confirm
from relevo.cli.shell.redis_server import server_of
from relevo.engine.schedules.patterns import MissedFiresPolicy, RepeatableMeta, RepeatPattern
from relevo.errors import BadArgument, NoSuchSchedule

if TYPE_CHECKING:
    from relevo.engine.queue import Queue

app = typer.Typer(help="Schedules: list, add, pause, resume, run, remove.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The schedule's key; `list` shows it.", show_default=False)]


@app.command("list")
def list_(
    ctx: typer.Context,
    queue: QueueName,
    limit: Annotated[int, typer.Option(help="How many, the soonest first.", min=1)] = 100,
    as_json: Json = False,
) -> None:
    """Show schedules in the order of their next fire, paused ones last."""
    running, paused = server_of(ctx).ask(queue, lambda opened: _list(opened, limit))
    made = table("key", "job", "when", "next fire", "limit", "until", "missed", title=f"schedules of {queue}")
    for meta in (*running, *paused):
        made.add_row(
            meta.key,
            meta.job_name,
            when(meta.pattern),
            "paused" if meta in paused else moment(meta.next_fire_ms),
            "-" if meta.limit is None else str(meta.limit),
            moment(meta.end_before_ms),
            "skip" if meta.missed_fires is None else _policy(meta.missed_fires),
        )
    value = [_as_dict(meta, False) for meta in running] + [_as_dict(meta, True) for meta in paused]
    show(value, as_json, made, nothing=f"no schedules in {queue}")


@app.command()
def add(
    ctx: typer.Context,
    queue: QueueName,
    name: Annotated[str, typer.Argument(help="The name of its jobs.", show_default=False)],
    data: Annotated[str, typer.Argument(help="Their data as JSON.")] = "null",
    cron: Annotated[str | None, typer.Option(help='A cron expression: "0 9 * * MON-FRI".')] = None,
    every: Annotated[str | None, typer.Option(help='An interval: "30s", "2h".')] = None,
    tz: Annotated[str | None, typer.Option(help="The zone of --cron: Europe/Madrid, +05:30. [UTC]")] = None,
    key: Annotated[str | None, typer.Option(help="Your own key; by default it is made of name and pattern.")] = None,
    limit: Annotated[int | None, typer.Option(help="End after this many fires.", min=1)] = None,
    start: Annotated[str | None, typer.Option(help="No fire at or before: 2026-01-31T08:00:00Z.")] = None,
    end: Annotated[str | None, typer.Option(help="No fire after.")] = None,
    missed: Annotated[
        str, typer.Option("--missed-fires", help="Fires missed while no worker ran: skip, fire-once or fire-all:N.")
    ] = "skip",
    attempts: Annotated[int | None, typer.Option(help="Runs of a job before it is dead-lettered.", min=1)] = None,
    backoff_ms: Annotated[int | None, typer.Option(help="Fixed pause before each retry.", min=0)] = None,
    as_json: Json = False,
) -> None:
    """Make a schedule, or replace the one with the same key."""
    options: dict[str, Any] = {
        "repeat": _pattern(cron, every, tz),
        "missed_fires": _missed(missed),
        "key": key,
        "limit": limit,
        "start_after_ms": None if start is None else date_ms("--start", start),
        "end_before_ms": None if end is None else date_ms("--end", end),
        "attempts": attempts,
        "backoff": backoff_ms,
    }
    content = read_json(data, "DATA")
    meta = server_of(ctx).ask(queue, lambda opened: opened.repeatables.upsert_repeatable(name, content, **options))
    made = f"schedule {meta.key} of {queue}: {when(meta.pattern)}, next at {moment(meta.next_fire_ms)}"
    show(_as_dict(meta, False), as_json, made)


@app.command()
def pause(ctx: typer.Context, queue: QueueName, key: Key, as_json: Json = False) -> None:
    """Pause a schedule; it does not fire until it is resumed."""
    changed = server_of(ctx).ask(queue, lambda opened: _switch(opened, key, on=False))
    words = "paused" if changed else "was already paused"
    _show(as_json, queue, key, {"paused": True, "changed": changed}, words)


@app.command()
def resume(ctx: typer.Context, queue: QueueName, key: Key, as_json: Json = False) -> None:
    """Resume a paused schedule; its next fire is the first from now on."""
    changed = server_of(ctx).ask(queue, lambda opened: _switch(opened, key, on=True))
    words = "resumed" if changed else "was not paused"
    _show(as_json, queue, key, {"paused": False, "changed": changed}, words)


@app.command("run")
def run_now(ctx: typer.Context, queue: QueueName, key: Key, as_json: Json = False) -> None:
    """Add a job of the schedule now; its fires and its limit stay as they are."""
    job = server_of(ctx).ask(queue, lambda opened: opened.run_repeatable_now(key))
    _show(as_json, queue, key, {"job_id": job.id}, f"added job {job.id}")


@app.command()
def remove(ctx: typer.Context, queue: QueueName, key: Key, yes: Yes = False, as_json: Json = False) -> None:
    """Remove a schedule; jobs it has added stay."""
    server_of(ctx).ask(queue, lambda opened: _remove(opened, key, yes))
    _show(as_json, queue, key, {"removed": True}, "removed")


async def _list(queue: Queue, limit: int) -> tuple[list[RepeatableMeta], list[RepeatableMeta]]:
    return await queue.repeatables.list(limit), await queue.repeatables.list(limit, paused=True)


async def _switch(queue: Queue, key: str, *, on: bool) -> bool:
    schedules = queue.repeatables
    await schedules.recipe(key)  # says which schedule is missing
    return await (schedules.resume(key) if on else schedules.pause_repeatable(key))


async def _remove(queue: Queue, key: str, yes: bool) -> None:
    spec = await queue.repeatables.recipe(key)
    pattern = when(RepeatPattern.from_wire(spec.pattern))
    confirm(f"remove the schedule {key} of {queue.name} ({spec.job_name}, {pattern})?", yes=yes)
    if not await queue.remove_repeatable_by_key(key):
        raise NoSuchSchedule(key=key, queue=queue.name)


def _show(as_json: bool, queue: str, key: str, fields: dict[str, object], words: str) -> None:
    show({"queue": queue, "key": key, **fields}, as_json, f"schedule {key} of {queue}: {words}")


def _pattern(cron: str | None, every: str | None, tz: str | None) -> RepeatPattern:
    if (cron is None) == (every is None):
        reason = "neither is given" if cron is None else "both are given"
        raise BadArgument(argument="--cron/--every", value=cron, reason=reason, remedy="Pass one of them.")
    if every is not None:
        if tz is not None:
            raise BadArgument(argument="--tz", value=tz, reason="an interval has no zone", remedy="Drop it.")
        return RepeatPattern.every(span_ms("--every", every))
    assert cron is not None
    return RepeatPattern.cron(cron, tz)


def _missed(text: str) -> MissedFiresPolicy:
    kind, _, number = text.partition(":")
    if kind == "fire-all" and number.isdigit():
        return MissedFiresPolicy.fire_all(int(number))
    if text not in ("skip", "fire-once"):
        remedy = "Write skip, fire-once, or fire-all:24 for the latest 24."
        raise BadArgument(argument="--missed-fires", value=text, reason="unknown", remedy=remedy)
    return MissedFiresPolicy(text)


def _policy(policy: MissedFiresPolicy) -> str:
    return policy.kind if policy.max_catchup is None else f"{policy.kind}:{policy.max_catchup}"


def when(pattern: RepeatPattern) -> str:
    """A pattern in words.

    >>> when(RepeatPattern.every(90_000)), when(RepeatPattern.cron("0 9 * * *", "+02:00"))
    ('every 1 min 30 s', '0 9 * * * (+02:00)')
    """
    if pattern.interval_ms is not None:
        return f"every {span(pattern.interval_ms)}"
    return f"{pattern.expression} ({pattern.tz or 'UTC'})"


def _as_dict(meta: RepeatableMeta, paused: bool) -> dict[str, Any]:
    return {
        "key": meta.key,
        "job_name": meta.job_name,
        "pattern": meta.pattern.to_dict(),
        "paused": paused,
        "next_fire": None if paused else moment(meta.next_fire_ms),
        "limit": meta.limit,
        "start_after_ms": meta.start_after_ms,
        "end_before_ms": meta.end_before_ms,
        "missed_fires": (meta.missed_fires or MissedFiresPolicy.skip()).to_dict(),
    }

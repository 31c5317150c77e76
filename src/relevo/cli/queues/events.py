"""`relevo events`: what happens in a queue, a line an event."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

import typer

from relevo.cli.queues.arguments import QueueName
from relevo.cli.shell.output import Json, cut, moment, print_json, say
from relevo.cli.shell.redis_server import Server, server_of
from relevo.engine.events.queue_events import QueueEvent, QueueEvents
from relevo.engine.queue import Queue
from relevo.errors import BadArgument

_LONGEST_VALUE = 80
_STYLES = {
    "completed": "green",
    "failed": "yellow",
    "retry-scheduled": "yellow",
    "stalled": "magenta",
    "dlq": "bold red",
}


def events(
    ctx: typer.Context,
    queue: QueueName,
    start: Annotated[
        str, typer.Option("--from", help="`$` for what happens from now on, 0 for all there is, or an event's id.")
    ] = "$",
    names: Annotated[list[str] | None, typer.Option("--event", help="Only this event; may be repeated.")] = None,
    job_id: Annotated[str | None, typer.Option("--job", help="Only events of this job.")] = None,
    most: Annotated[int | None, typer.Option("--count", help="Stop after this many.", min=1)] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Whole values, and the traceback of a failed run while it is kept.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Follow a queue's events until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        server, first = server_of(ctx), _checked(start)
        server.must_answer(queue)
        asyncio.run(_follow(server, queue, first, set(names or ()), job_id, most, verbose, as_json))


async def _follow(
    server: Server,
    queue: str,
    start: str,
    names: set[str],
    job_id: str | None,
    most: int | None,
    verbose: bool,
    as_json: bool,
) -> None:
    async with (
        server.queue(queue) as opened,
        QueueEvents(queue, redis_url=server.url, last_event_id=start) as followed,
    ):
        async for event in followed:
            if (names and event.name not in names) or (job_id is not None and event.job_id != job_id):
                continue
            trace = await _traceback(opened, event) if verbose else None
            if as_json:
                print_json(_as_dict(event) | ({"traceback": trace} if trace else {}), lines=True)
            else:
                say(_line(event, verbose), _STYLES.get(event.name, ""))
                if trace:
                    say(trace)
            if most is not None:
                most -= 1
                if most == 0:
                    return


def _checked(start: str) -> str:
    time, _, sequence = start.partition("-")
    if start != "$" and not (time.isdecimal() and (not sequence or sequence.isdecimal())):
        remedy = "Pass $, 0, or an id such as 1700000000000-0."
        raise BadArgument(argument="--from", value=start, reason="not an event's id", remedy=remedy)
    return start


def _as_dict(event: QueueEvent) -> dict[str, object]:
    return {"id": event.id, "event": event.name, "job_id": event.job_id, "job_name": event.job_name, **event.fields}


async def _traceback(queue: Queue, event: QueueEvent) -> str | None:
    """Of the run that failed, or killed its job: kept until the job runs again and fails anew, ends well or is removed."""
    if event.name not in ("failed", "dlq") or event.job_id is None:
        return None
    found = await queue.jobs.find(event.job_id)
    same = found.failure is not None and found.failure.attempt == event.fields.get("attempt")
    return found.failure.traceback or None if same and found.failure else None


def _line(event: QueueEvent, verbose: bool) -> str:
    """`<time> <event id> <event> id=<job> name=<job name> k=v...`: the words ChasquiMQ's own command prints."""
    fields = dict(event.fields)
    stamp = moment(int(fields.pop("ts", 0)))
    extras = "".join(
        f" {key}={fields[key] if verbose else cut(' '.join(str(fields[key]).split()), _LONGEST_VALUE)}"
        for key in sorted(fields)
    )
    return f"{stamp} {event.id} {event.name} id={event.job_id or '-'} name={event.job_name or '-'}{extras}"

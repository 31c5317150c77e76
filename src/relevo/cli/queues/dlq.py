"""`relevo dlq`: look at dead letters, send them back, throw them away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Protocol

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from relevo.cli.queues.arguments import QueueName
from relevo.cli.shell.durations import instant_ms
from relevo.cli.shell.output import Json, console, count, moment, print_json, say, table
from relevo.cli.shell.prompts import DryRun, Yes, ask
from relevo.cli.shell.redis_server import Server, run, server_of
from relevo.engine.dead_letters import DeadLetter, DeadLetterFilter, DeadLetters
from relevo.errors import BadArgument, Undecodable
from relevo.wire.dead import Reason
from relevo.wire.payload import decode_payload

app = typer.Typer(help="Dead letters: peek, replay, purge.", no_args_is_help=True)

Reasons = Annotated[list[str] | None, typer.Option("--reason", help="Only this reason; may be repeated.")]
Names = Annotated[list[str] | None, typer.Option("--name", help="Only jobs of this name; may be repeated.")]
JobIds = Annotated[list[str] | None, typer.Option("--job-id", help="Only this job; may be repeated.")]
Since = Annotated[str | None, typer.Option(help='Dead since: a date, or how long ago ("2h").')]
Until = Annotated[str | None, typer.Option(help="Dead before: a date, or how long ago.")]

_DETAIL = 60
_TRACEBACKS = 5


class Deed(Protocol):
    """What is done to the chosen letters: `DeadLetters.replay` or `DeadLetters.purge`."""

    def __call__(
        self, limit: int, wanted: DeadLetterFilter, progress: Callable[[int], None], /
    ) -> Coroutine[Any, Any, int]: ...


@app.command()
def peek(
    ctx: typer.Context,
    queue: QueueName,
    limit: Annotated[int, typer.Option(help="How many, the oldest first.", min=1)] = 20,
    reason: Reasons = None,
    name: Names = None,
    job_id: JobIds = None,
    since: Since = None,
    until: Until = None,
    as_json: Json = False,
) -> None:
    """Show dead letters, the oldest first."""
    wanted = _filter(reason, name, job_id, since, until)
    letters = run(_peek(server_of(ctx), queue, wanted, limit))
    if as_json:
        print_json([_as_dict(letter) for letter in letters])
        return
    if not letters:
        say(f"no dead letters in {queue}" + (" match" if wanted != DeadLetterFilter() else ""))
        return
    columns = ("dlq id", "source id", "job id", "name", "runs", "reason", "detail", "bytes")
    made = table(*columns, title=f"dead letters of {queue}", numbers=("runs", "bytes"))
    for letter in letters:
        envelope = letter.envelope
        detail = " ".join((letter.detail or "-").split())
        detail = detail if len(detail) <= _DETAIL else detail[: _DETAIL - 1] + "…"
        made.add_row(
            letter.dlq_id, letter.source_id or "-", envelope.id if envelope else "-", letter.name or "-",
            "-" if letter.attempts_made is None else count(letter.attempts_made), letter.reason, detail,
            count(len(letter.payload)),
        )  # fmt: skip
    console().print(made)
    _say_reasons(letters)
    _say_tracebacks(letters)


@app.command()
def replay(
    ctx: typer.Context,
    queue: QueueName,
    limit: Annotated[int, typer.Option(help="How many at most, the oldest first.", min=1)] = 100,
    reason: Reasons = None,
    name: Names = None,
    job_id: JobIds = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Send dead letters back to the queue with a fresh budget of attempts."""
    wanted = _filter(reason, name, job_id, since, until)

    def deed(dead: DeadLetters) -> Deed:
        return dead.replay

    run(_change(server_of(ctx), queue, wanted, limit, ("replay", "replayed"), deed, dry_run, yes, as_json))


@app.command()
def purge(
    ctx: typer.Context,
    queue: QueueName,
    limit: Annotated[int | None, typer.Option(help="How many at most, the oldest first.", min=1)] = None,
    reason: Reasons = None,
    name: Names = None,
    job_id: JobIds = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete dead letters for good."""
    wanted = _filter(reason, name, job_id, since, until)

    def deed(dead: DeadLetters) -> Deed:
        return dead.purge

    run(_change(server_of(ctx), queue, wanted, limit, ("purge", "purged"), deed, dry_run, yes, as_json))


async def _peek(server: Server, queue: str, wanted: DeadLetterFilter, limit: int) -> list[DeadLetter]:
    async with server.queue(queue) as opened:
        return await opened.dead_letters.peek(limit, wanted)


async def _change(
    server: Server,
    queue: str,
    wanted: DeadLetterFilter,
    limit: int | None,
    verb: tuple[str, str],
    deed: Callable[[DeadLetters], Deed],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    do, done = verb
    async with server.queue(queue) as opened:
        dead = opened.dead_letters
        meant = await dead.peek(await dead.count() if limit is None else limit, wanted)
        stuck = [letter for letter in meant if letter.envelope is None] if do == "replay" else []
        number = len(meant) - len(stuck)
        if dry_run:
            if as_json:
                print_json({"queue": queue, "would": do, "count": number, "reasons": _reasons(meant)})
            else:
                say(f"would {do} {count(number)} of {count(await dead.count())} dead letters of {queue}")
                _say_reasons(meant)
            return
        if number and not yes:
            ask(f"{do} {count(number)} dead letters of {queue}?")
        moved = await _with_bar(deed(dead), number, wanted, f"{do} {queue}", quiet=as_json) if number else 0
        left = await dead.count()
    if as_json:
        print_json({"queue": queue, done: moved, "left": left})
        return
    say(f"{done} {count(moved)} of {count(len(meant))} dead letters; {count(left)} left in {queue}")
    if stuck:
        say(
            f"{count(len(stuck))} cannot be read as jobs and stay: look at them with `relevo dlq peek {queue}`",
            "yellow",
        )
    if moved < number:
        say("the queue is full, or someone else took the rest: run it again", "yellow")


async def _with_bar(deed: Deed, number: int, wanted: DeadLetterFilter, label: str, *, quiet: bool) -> int:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), disable=quiet, transient=True) as bar:
        task = bar.add_task(label, total=number)
        return await deed(number, wanted, lambda moved: bar.update(task, completed=moved))


def _filter(
    reasons: list[str] | None, names: list[str] | None, job_ids: list[str] | None, since: str | None, until: str | None
) -> DeadLetterFilter:
    known = [reason.value for reason in Reason]
    for reason in reasons or ():
        if reason not in known:
            remedy = f"Use one of {', '.join(known)}."
            raise BadArgument(argument="--reason", value=reason, reason="unknown", remedy=remedy)
    return DeadLetterFilter(
        tuple(reasons or ()),
        tuple(names or ()),
        tuple(job_ids or ()),
        None if since is None else instant_ms("--since", since),
        None if until is None else instant_ms("--until", until),
    )


def _reasons(letters: list[DeadLetter]) -> dict[str, int]:
    return dict(Counter(letter.reason for letter in letters).most_common())


def _say_reasons(letters: list[DeadLetter]) -> None:
    say("  ".join(f"{reason}: {count(number)}" for reason, number in _reasons(letters).items()))


def _say_tracebacks(letters: list[DeadLetter]) -> None:
    """Each traceback once: what kills jobs kills many of them."""
    alike: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        if letter.traceback and letter.traceback != letter.detail:
            alike.setdefault(letter.traceback, []).append(letter)
    for trace, found in list(alike.items())[:_TRACEBACKS]:
        first = found[0].envelope
        others = f" and {count(len(found) - 1)} more" if len(found) > 1 else ""
        say(f"\n{first.id if first else found[0].dlq_id} ({found[0].name or 'unnamed'}){others}:", "bold")
        say(trace)
    if len(alike) > _TRACEBACKS:
        say(f"\n{count(len(alike) - _TRACEBACKS)} more tracebacks: --json shows all of them", "dim")


def _as_dict(letter: DeadLetter) -> dict[str, Any]:
    envelope = letter.envelope
    data: Any = None
    if envelope is not None:
        try:
            data = decode_payload(envelope.payload)
        except Undecodable:
            data = envelope.payload
    return {
        "dlq_id": letter.dlq_id,
        "dead_at": moment(letter.at_ms),
        "source_id": letter.source_id,
        "reason": letter.reason,
        "detail": letter.detail,
        "traceback": letter.traceback,
        "name": letter.name,
        "job_id": envelope.id if envelope else None,
        "attempts_made": letter.attempts_made,
        "created_at_ms": envelope.created_at_ms if envelope else None,
        "data": data,
        "payload_bytes": len(letter.payload),
        "payload": letter.payload if envelope is None else None,
    }

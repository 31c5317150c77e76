"""`relevo dlq`: look at dead letters, send them back, throw them away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from rich.text import Text

from relevo.cli.queues.arguments import QueueName
from relevo.cli.shell.durations import instant_ms
from relevo.cli.shell.output import Json, count, cut, moment, show, table
from relevo.cli.shell.progress import bar
from relevo.cli.shell.prompts import DryRun, Yes, confirm
from relevo.cli.shell.redis_server import server_of
from relevo.engine.admin.dead_letters import DeadLetter, DeadLetterFilter, DeadLetters
from relevo.errors import BadArgument, Undecodable
from relevo.wire.dead import Reason
from relevo.wire.payload import decode_payload

if TYPE_CHECKING:
    from relevo.engine.queue import Queue

app = typer.Typer(help="Dead letters: peek, replay, purge.", no_args_is_help=True)

Reasons = Annotated[list[str] | None, typer.Option("--reason", help="Only this reason; may be repeated.")]
Names = Annotated[list[str] | None, typer.Option("--name", help="Only jobs of this name; may be repeated.")]
JobIds = Annotated[list[str] | None, typer.Option("--job-id", help="Only this job; may be repeated.")]
Since = Annotated[str | None, typer.Option(help='Dead since: a date, or how long ago ("2h").')]
Until = Annotated[str | None, typer.Option(help="Dead before: a date, or how long ago.")]

_DETAIL = 60
_TRACEBACKS = 5


class _Method(Protocol):
    """`DeadLetters.replay` or `DeadLetters.purge`."""

    def __call__(
        self, limit: int, wanted: DeadLetterFilter, progress: Callable[[int], None], /
    ) -> Coroutine[Any, Any, int]: ...


@dataclass(frozen=True)
class _Action:
    """What is done to the chosen letters."""

    verb: str
    done: str
    of: Callable[[DeadLetters], _Method]

    def stuck(self, letters: list[DeadLetter]) -> list[DeadLetter]:
        """Those it cannot be done to: what is not a job can be deleted, not run."""
        return [letter for letter in letters if letter.envelope is None] if self.verb == "replay" else []


_REPLAY = _Action("replay", "replayed", lambda dead: dead.replay)
_PURGE = _Action("purge", "purged", lambda dead: dead.purge)


@dataclass(frozen=True)
class _Done:
    """What came of it: letters that were chosen, that are no jobs, that were moved, and that are left in the queue."""

    meant: int
    stuck: int
    moved: int
    left: int

    def remarks(self, queue: str) -> Iterator[Text]:
        if self.stuck:
            look = f"look at them with `relevo dlq peek {queue}`"
            yield Text(f"{count(self.stuck)} cannot be read as jobs and were not replayed: {look}", "yellow")
        if self.moved < self.meant - self.stuck:
            yield Text("the queue is full, or someone else took the rest: run it again", "yellow")


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
    letters = server_of(ctx).ask(queue, lambda opened: opened.dead_letters.peek(limit, wanted))
    columns = ("dlq id", "source id", "job id", "name", "runs", "reason", "detail", "bytes")
    made = table(*columns, title=f"dead letters of {queue}", numbers=("runs", "bytes"))
    for letter in letters:
        envelope = letter.envelope
        detail = cut(" ".join((letter.detail or "-").split()), _DETAIL)
        made.add_row(
            letter.dlq_id,
            letter.source_id or "-",
            envelope.id if envelope else "-",
            letter.name or "-",
            "-" if letter.attempts_made is None else count(letter.attempts_made),
            letter.reason,
            detail,
            count(len(letter.payload)),
        )
    nothing = f"no dead letters in {queue}" + (" match" if wanted != DeadLetterFilter() else "")
    value = [_as_dict(letter) for letter in letters]
    show(value, as_json, made, _reasons_line(letters), *_tracebacks(letters), nothing=nothing)


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
    _change(ctx, queue, wanted, limit, _REPLAY, dry_run, yes, as_json)


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
    """Delete dead letters permanently."""
    wanted = _filter(reason, name, job_id, since, until)
    _change(ctx, queue, wanted, limit, _PURGE, dry_run, yes, as_json)


def _change(
    ctx: typer.Context,
    queue: str,
    wanted: DeadLetterFilter,
    limit: int | None,
    action: _Action,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Says what would be done; or asks, does it, and says what was done."""
    server = server_of(ctx)
    if dry_run:
        meant, there = server.ask(queue, lambda opened: _meant(opened, wanted, limit))
        number = len(meant) - len(action.stuck(meant))
        words = f"would {action.verb} {count(number)} of {count(there)} dead letters of {queue}"
        value = {"queue": queue, "would": action.verb, "count": number, "reasons": _reasons(meant)}
        show(value, as_json, words, _reasons_line(meant))
        return
    done = server.ask(queue, lambda opened: _do(opened, wanted, limit, action, yes, as_json))
    show(
        {"queue": queue, action.done: done.moved, "left": done.left},
        as_json,
        f"{action.done} {count(done.moved)} of {count(done.meant)} dead letters; {count(done.left)} left in {queue}",
        *done.remarks(queue),
    )


async def _meant(queue: Queue, wanted: DeadLetterFilter, limit: int | None) -> tuple[list[DeadLetter], int]:
    """The chosen letters, and how many there are in all."""
    there = await queue.dead_letters.count()
    return await queue.dead_letters.peek(there if limit is None else limit, wanted), there


async def _do(
    queue: Queue, wanted: DeadLetterFilter, limit: int | None, action: _Action, yes: bool, quiet: bool
) -> _Done:
    meant, _ = await _meant(queue, wanted, limit)
    stuck = len(action.stuck(meant))
    number, moved = len(meant) - stuck, 0
    if number:
        confirm(f"{action.verb} {count(number)} dead letters of {queue.name}?", yes=yes)
        with bar(f"{action.verb} {queue.name}", number, quiet=quiet) as shown:
            moved = await action.of(queue.dead_letters)(number, wanted, shown.update)
    return _Done(len(meant), stuck, moved, await queue.dead_letters.count())


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


def _reasons_line(letters: list[DeadLetter]) -> str:
    return "  ".join(f"{reason}: {count(number)}" for reason, number in _reasons(letters).items())


def _tracebacks(letters: list[DeadLetter]) -> Iterator[Text | str]:
    """Each traceback once: what kills jobs kills many of them."""
    alike: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        if letter.traceback and letter.traceback != letter.detail:
            alike.setdefault(letter.traceback, []).append(letter)
    for trace, found in list(alike.items())[:_TRACEBACKS]:
        first = found[0].envelope
        others = f" and {count(len(found) - 1)} more" if len(found) > 1 else ""
        yield Text(f"\n{first.id if first else found[0].dlq_id} ({found[0].name or 'unnamed'}){others}:", "bold")
        yield trace
    if len(alike) > _TRACEBACKS:
        yield Text(f"\n{count(len(alike) - _TRACEBACKS)} more tracebacks: --json shows all of them", "dim")


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

"""`relevo work`: dead letters and their replays."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relevo.cli.shell.output import Json, count, moment, one_line, show, table
from relevo.cli.shell.progress import bar
from relevo.cli.shell.prompts import DryRun, Yes, confirm
from relevo.cli.work.arguments import Labels, Limit, Scope, read_labels
from relevo.cli.work.group import app
from relevo.cli.work.target import Target, target_of

if TYPE_CHECKING:
    from relevo.client import Client, Replay

Reason = Annotated[str | None, typer.Option(help="Part of the reason.")]
Origin = Annotated[str | None, typer.Option("--queue", help="Only of this queue.")]
Since = Annotated[str | None, typer.Option(help="Dead since: RFC 3339.")]

_LOOK_EVERY_S = 0.3


@app.command("dead-letters")
def dead_letters(
    ctx: typer.Context,
    scope: Scope,
    queue: Origin = None,
    reason: Reason = None,
    since: Since = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List dead letters, the newest first."""
    question = {"queue": queue, "reason": reason, "since": since, "limit": limit}
    found = target_of(ctx).ask(lambda client: client.dead_letters(scope, **question)).items  # pyright: ignore[reportArgumentType]
    made = table("message", "from", "type", "reason", "attempts", "replays", "died", "body")
    for letter in found:
        made.add_row(
            letter.id,
            letter.queue or "-",
            letter.message_type,
            letter.reason or "-",
            str(letter.attempts),
            str(letter.replays),
            moment(letter.died_at),
            one_line(letter.body, 40),
        )
    show(found, as_json, made, nothing=f"no dead letters in {scope}")


@app.command()
def replay(
    ctx: typer.Context,
    scope: Scope,
    queue: Origin = None,
    reason: Reason = None,
    message_type: Annotated[str | None, typer.Option("--type")] = None,
    since: Since = None,
    label: Labels = None,
    message: Annotated[list[str] | None, typer.Option("--id", help="Only this one; may be repeated.")] = None,
    rate: Annotated[int | None, typer.Option(help="At most so many a second.", min=1)] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Send dead letters back to their queues, and watch it happen. Ctrl-C leaves the replay running."""
    given = {"queue": queue, "reason": reason, "message_type": message_type, "since": since, "ids": message}
    wanted: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if label:
        wanted["labels"] = read_labels(label)
    target = target_of(ctx)
    meant = target.ask(lambda client: client.start_replay(scope, wanted, dry_run=True))
    if dry_run or meant.total == 0:
        show(meant, as_json, f"{count(meant.total)} dead letters match, {count(meant.skipped)} would be skipped")
        return
    confirm(f"Send {count(meant.total)} dead letters of {scope} back?", yes=yes)
    started = target.ask(lambda client: client.start_replay(scope, wanted, rate_per_s=rate))
    ended = _follow(target, scope, started, quiet=as_json)
    show(
        ended,
        as_json,
        f"replay {ended.id} is {ended.state}: {count(ended.done)} sent back, {count(ended.skipped)} skipped",
    )
    if ended.state == "failed":
        raise typer.Exit(1)


def _follow(target: Target, scope: str, replay: Replay, *, quiet: bool) -> Replay:
    def watch(client: Client) -> Replay:
        seen = replay
        with bar("replaying", replay.total, quiet=quiet) as shown:
            while seen.state == "running":
                time.sleep(_LOOK_EVERY_S)
                seen = client.replay(scope, replay.id)
                shown.update(seen.done + seen.skipped)
        return seen

    return target.ask(watch)

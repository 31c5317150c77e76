"""`relevo work`: scopes and their queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from relevo.cli.shell.output import Json, count, moment, show, table
from relevo.cli.work.arguments import ExistOk, Queue, Scope
from relevo.cli.work.group import app
from relevo.cli.work.target import target_of

if TYPE_CHECKING:
    from relevo.client import Queue as QueueShown


@app.command()
def scopes(ctx: typer.Context, as_json: Json = False) -> None:
    """List scopes."""
    found = target_of(ctx).ask(lambda client: client.scopes(limit=500)).items
    made = table("scope", "name", "state", "made")
    for scope in found:
        made.add_row(scope.slug, scope.display_name, scope.state, moment(scope.created_at))
    show(found, as_json, made, nothing="no scopes yet")


@app.command("create-scope")
def create_scope(ctx: typer.Context, scope: Scope, exist_ok: ExistOk = False, as_json: Json = False) -> None:
    """Make a scope, with its system queues."""
    made = target_of(ctx).ask(lambda client: client.create_scope(scope, exist_ok=exist_ok))
    show(made, as_json, f"scope {made.slug} is ready")


@app.command()
def queues(ctx: typer.Context, scope: Scope, as_json: Json = False) -> None:
    """List the queues of a scope and what they hold."""
    found = target_of(ctx).ask(lambda client: client.queues(scope, limit=500)).items
    numbers = ("pending", "delayed", "claimed", "in review", "dead")
    made = table("queue", "order", "mode", "state", *numbers, title=f"queues of {scope}", numbers=numbers)
    for queue in found:
        made.add_row(queue.slug, queue.ordering, queue.consumer_mode, queue.state, *_depths(queue))
    show(found, as_json, made, nothing=f"no queues in {scope}")


@app.command("create-queue")
def create_queue(
    ctx: typer.Context,
    scope: Scope,
    queue: Queue,
    ordering: Annotated[str, typer.Option(help="fifo, priority or deadline.")] = "fifo",
    mode: Annotated[str, typer.Option(help="competing or broadcast.")] = "competing",
    visibility_timeout: Annotated[int, typer.Option(help="Seconds a claim lasts.", min=1)] = 30,
    max_retries: Annotated[int, typer.Option(min=0)] = 5,
    max_depth: Annotated[int | None, typer.Option(help="Publishes beyond are refused.", min=1)] = None,
    exist_ok: ExistOk = False,
    as_json: Json = False,
) -> None:
    """Make a queue."""
    settings: dict[str, Any] = {
        "ordering": ordering,
        "consumer_mode": mode,
        "visibility_timeout_s": visibility_timeout,
        "max_retries": max_retries,
        "max_depth": max_depth,
    }
    made = target_of(ctx).ask(lambda client: client.create_queue(scope, queue, exist_ok=exist_ok, **settings))
    show(made, as_json, f"queue {scope}/{made.slug} is ready")


@app.command("set-state")
def set_state(
    ctx: typer.Context,
    scope: Scope,
    queue: Queue,
    state: Annotated[str, typer.Argument(help="active, paused, draining or archived.")],
    as_json: Json = False,
) -> None:
    """Pause, drain, archive or reopen a queue."""
    made = target_of(ctx).ask(lambda client: client.change_queue(scope, queue, state=state))
    show(made, as_json, f"queue {scope}/{made.slug} is {made.state}")


def _depths(queue: QueueShown) -> tuple[str, ...]:
    depths = (queue.depth_pending, queue.depth_delayed, queue.depth_claimed, queue.depth_in_review, queue.depth_dead)
    return tuple(count(depth) for depth in depths)

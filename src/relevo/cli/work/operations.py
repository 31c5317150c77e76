"""`relevo work`: usage, the audit, agents."""

from __future__ import annotations

from typing import Annotated

import typer

from relevo.cli.shell.output import Json, count, moment, one_line, show, span, table
from relevo.cli.work.arguments import Limit
from relevo.cli.work.group import app
from relevo.cli.work.target import target_of


@app.command()
def usage(
    ctx: typer.Context,
    since: Annotated[str | None, typer.Option(help="A day, as in 2026-11-15; the last 30 by default.")] = None,
    until: Annotated[str | None, typer.Option()] = None,
    scope: Annotated[str | None, typer.Option()] = None,
    as_json: Json = False,
) -> None:
    """Show what each queue did on each day."""
    rows = target_of(ctx).ask(lambda client: client.usage(since=since, until=until, scope=scope, limit=500)).items
    numbers = ("published", "bytes", "completed", "failed", "dead", "handler time")
    made = table("day", "scope", "queue", *numbers, numbers=numbers)
    for row in rows:
        made.add_row(
            row.day,
            row.scope,
            row.queue,
            count(row.published),
            count(row.published_bytes),
            count(row.completed),
            count(row.failed),
            count(row.dead_lettered),
            span(int(row.handler_s * 1000)),
        )
    show(rows, as_json, made, nothing="no usage in that time")


@app.command()
def audit(
    ctx: typer.Context,
    scope: Annotated[str | None, typer.Option()] = None,
    actor: Annotated[str | None, typer.Option()] = None,
    action: Annotated[str | None, typer.Option()] = None,
    target: Annotated[str | None, typer.Option(help="A slug, a key or a message.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Show who changed what, the newest first."""
    found = (
        target_of(ctx)
        .ask(lambda client: client.audit(scope=scope, actor=actor, action=action, target=target, limit=limit))
        .items
    )
    made = table("at", "who", "did", "what", "scope", "queue", "after")
    for entry in found:
        made.add_row(
            moment(entry.at),
            entry.actor,
            entry.action,
            entry.target,
            entry.scope or "-",
            entry.queue or "-",
            one_line(entry.after, 60),
        )
    show(found, as_json, made, nothing="no audit entries")


@app.command()
def agents(
    ctx: typer.Context,
    run_now: Annotated[str | None, typer.Option("--run", help="Run this one now.")] = None,
    as_json: Json = False,
) -> None:
    """Show the agents of the installation and their last runs; needs a key that may `operate`."""
    target = target_of(ctx)
    found = (
        [target.ask(lambda client: client.run_agent(run_now))]
        if run_now
        else target.ask(lambda client: client.agents()).items
    )
    made = table("agent", "every", "last run", "took", "items", "error", "runs", "failures")
    for agent in found:
        made.add_row(
            agent.agent,
            f"{agent.every_s:g} s",
            moment(agent.last_finished_at),
            span(None if agent.last_duration_s is None else int(agent.last_duration_s * 1000)),
            "-" if agent.last_items is None else count(agent.last_items),
            agent.last_error or "-",
            count(agent.runs),
            count(agent.failures),
        )
    show(found, as_json, made, nothing="no agents")

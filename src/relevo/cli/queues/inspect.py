"""`relevo inspect`: a queue's numbers, once."""

from __future__ import annotations

import typer
from rich.table import Table

from relevo.cli.queues.arguments import Group, QueueName
from relevo.cli.shell.output import Json, count, show, span, table
from relevo.cli.shell.redis_server import server_of
from relevo.engine.admin.snapshot import QueueSnapshot


def inspect(ctx: typer.Context, queue: QueueName, group: Group = "default", as_json: Json = False) -> None:
    """Show how many jobs wait, run, are delayed or dead."""
    snapshot = server_of(ctx).ask_link(queue, lambda link, keys: QueueSnapshot.take(link, keys, group))
    made = table("", "now", title=f"queue {queue}", numbers=("now",))
    for label, value in rows(snapshot):
        made.add_row(label, value)
    show(snapshot.as_dict(), as_json, made)


def rows(snapshot: QueueSnapshot) -> list[tuple[str, str]]:
    """What the tables of `inspect` and `watch` show, in their order."""
    pending = count(snapshot.pending) if snapshot.group_exists else "- (group not created)"
    return [
        ("stream depth", count(snapshot.stream)),
        ("paused", "yes" if snapshot.paused else "no"),
        ("waiting", count(snapshot.waiting)),
        ("oldest waiting", span(snapshot.oldest_waiting_ms)),
        ("pending (with workers)", pending),
        ("consumers in the group", count(snapshot.consumers)),
        ("delayed depth", count(snapshot.delayed)),
        ("due, not promoted yet", count(snapshot.due)),
        ("oldest delayed lag", span(snapshot.overdue_ms)),
        ("next delayed due in", span(snapshot.next_due_ms)),
        ("DLQ depth", count(snapshot.dead)),
        ("repeatable", count(snapshot.repeatable)),
    ]


def as_table(snapshot: QueueSnapshot, changes: dict[str, str]) -> Table:
    """The same rows with what changed since the last look."""
    made = table("", "now", "change", title=f"queue {snapshot.queue}", numbers=("now", "change"))
    for label, value in rows(snapshot):
        made.add_row(label, value, changes.get(label, ""))
    return made

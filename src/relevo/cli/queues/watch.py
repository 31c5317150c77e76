"""`relevo watch`: a queue's numbers, live."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from relevo.broker.link import Link
from relevo.cli.queues.arguments import Group, QueueName
from relevo.cli.queues.inspect import as_table
from relevo.cli.shell.output import Json, console, print_json
from relevo.cli.shell.redis_server import server_of
from relevo.engine.admin.snapshot import QueueSnapshot
from relevo.errors import ConnectionLost, Unreachable
from relevo.wire.keys import QueueKeys

_COUNTED = {"stream depth": "stream", "waiting": "waiting", "DLQ depth": "dead", "delayed depth": "delayed"}


def watch(
    ctx: typer.Context,
    queue: QueueName,
    group: Group = "default",
    interval_ms: Annotated[int, typer.Option(help="Milliseconds between two updates.", min=1)] = 1000,
    times: Annotated[int | None, typer.Option("--count", help="Stop after this many updates.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Follow a queue's numbers until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        server_of(ctx).ask_link(queue, lambda link, keys: _watch(link, keys, group, interval_ms / 1000, times, as_json))


async def _watch(link: Link, keys: QueueKeys, group: str, every: float, times: int | None, as_json: bool) -> None:
    previous: QueueSnapshot | None = None
    with Live(console=console(), auto_refresh=False) as live:
        while times is None or times > 0:
            try:
                snapshot = await QueueSnapshot.take(link, keys, group)
            except (ConnectionLost, Unreachable) as error:
                # The server may come back, and a watcher at 3 a.m. wants to see that it did.
                _draw(live, Text(" ".join(str(error).split()), style="red"))
                await asyncio.sleep(every)
                continue
            if as_json:
                print_json(snapshot.as_dict(), lines=True)
            else:
                _draw(live, as_table(snapshot, _changes(previous, snapshot)))
            previous = snapshot
            times = None if times is None else times - 1
            if times != 0:
                await asyncio.sleep(every)


def _draw(live: Live, picture: RenderableType) -> None:
    """In place in a terminal; one below the other in a file or a pipe."""
    if live.console.is_terminal:
        live.update(picture, refresh=True)
    else:
        live.console.print(picture)


def _changes(previous: QueueSnapshot | None, now: QueueSnapshot) -> dict[str, str]:
    if previous is None:
        return {}
    changes = {label: getattr(now, field) - getattr(previous, field) for label, field in _COUNTED.items()}
    return {label: f"{change:+d}" for label, change in changes.items() if change}

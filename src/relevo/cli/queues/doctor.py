"""`relevo doctor`: is this server fit to hold jobs, and is this queue well?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from relevo.arguments import checked_queue_name
from relevo.broker.address import Address, Node
from relevo.broker.checkup import Facts, Finding, Level, check_up
from relevo.broker.link import Link
from relevo.broker.resp import Reply, pairs
from relevo.cli.shell.output import Json, count, show, span, table
from relevo.cli.shell.redis_server import Server, server_of
from relevo.engine.admin.snapshot import HANDED_BACK, QueueSnapshot
from relevo.wire.keys import QueueKeys

_DLQ_CAP = 100_000
_LATE_MS = 10_000
_SILENT_MS = 60_000
_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.DANGER: "bold red"}


def doctor(
    ctx: typer.Context,
    queue: Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="Check this queue as well.")] = None,
    as_json: Json = False,
) -> None:
    """Check the server's version, persistence, eviction and clock; exit code 1 when jobs are in danger."""
    server = server_of(ctx)
    found = asyncio.run(_examine(server, queue))
    endangered = any(finding.level is Level.DANGER for _, finding in found)
    findings = [{"where": where, **asdict(finding)} for where, finding in found]
    value = {"redis_url": str(server.address), "in_danger": endangered, "findings": findings}
    show(value, as_json, *_tables(found), _verdict(server, found))
    if endangered:
        raise typer.Exit(1)


async def _examine(server: Server, queue: str | None) -> list[tuple[str, Finding]]:
    keys = QueueKeys(checked_queue_name(queue) if queue is not None else "doctor")
    found: list[tuple[str, Finding]] = []
    for where, address in await _nodes(server, keys):
        async with server.link(keys, address) as link:
            found += [(where, finding) for finding in check_up(await Facts.ask(link))]
    if queue is not None:
        async with server.link(keys) as link:
            snapshot = await QueueSnapshot.take(link, keys)
            workers = await _workers(link, keys) if snapshot.group_exists else 0
        found += [(f"queue {queue}", finding) for finding in _queue_findings(snapshot, workers)]
    return found


async def _nodes(server: Server, keys: QueueKeys) -> list[tuple[str, Address | None]]:
    """One server, or every master of a cluster: any of them may hold a queue."""
    if server.address.kind != "cluster":
        return [(str(server.address), None)]
    async with server.link(keys) as link:
        masters = await _masters(link)
    return [(str(node), replace(server.address, kind="single", nodes=(node,))) for node in masters]


async def _masters(link: Link) -> list[Node]:
    ranges: Reply = await link.call("CLUSTER", "SLOTS")
    here = link.address.nodes[0].host
    return list(dict.fromkeys(Node((master[0] or b"").decode() or here, master[1]) for _, _, master, *_ in ranges))


async def _workers(link: Link, keys: QueueKeys, group: str = "default") -> int:
    """Consumers that have asked for work or renewed a lease lately: one that died stays in the group for a while."""
    consumers: Reply = await link.call("XINFO", "CONSUMERS", keys.stream, group)
    seen = (pairs(each) for each in consumers)
    return sum(each[b"name"] != HANDED_BACK and int(each[b"idle"]) < _SILENT_MS for each in seen)


def _queue_findings(snapshot: QueueSnapshot, workers: int) -> list[Finding]:
    found: list[Finding] = []
    waiting = f"{count(snapshot.waiting)}, the oldest for {span(snapshot.oldest_waiting_ms)}"
    if snapshot.paused:
        remedy = f"Resume it: relevo resume {snapshot.queue}."
        found.append(Finding(Level.NOTE, "paused", "the queue is paused: its jobs do not run", remedy))
    if snapshot.waiting and workers == 0:
        found.append(Finding(Level.DANGER, "waiting", f"{waiting}; no worker", "Start a worker for this queue."))
    else:
        found.append(Finding(Level.OK, "waiting", waiting if snapshot.waiting else "none"))
    late = snapshot.overdue_ms or 0
    if late > _LATE_MS:
        remedy = "A worker with delayed_enabled=True must run; a full queue also holds delayed jobs back."
        found.append(Finding(Level.DANGER, "delayed", f"the first is {span(late)} late", remedy))
    else:
        found.append(Finding(Level.OK, "delayed", f"{count(snapshot.delayed)}, none late"))
    dead = Finding(Level.OK, "dead letters", count(snapshot.dead))
    if snapshot.dead:
        remedy = f"Look: relevo dlq peek {snapshot.queue}. Then: relevo dlq replay {snapshot.queue}."
        dead = replace(dead, level=Level.NOTE, remedy=remedy)
    if snapshot.dead >= 0.9 * _DLQ_CAP:
        remedy = "Replay or purge them, or raise `dlq_max_stream_len`: at the cap the oldest are dropped."
        dead = replace(dead, level=Level.DANGER, remedy=remedy)
    return [*found, dead]


def _tables(found: list[tuple[str, Finding]]) -> Iterator[Table]:
    for where in dict.fromkeys(where for where, _ in found):
        made = table("", "checked", "found", "remedy", title=where)
        for each, finding in found:
            if each == where:
                mark = Text(finding.level, _STYLES[finding.level])
                made.add_row(mark, finding.subject, finding.found, finding.remedy)
        yield made


def _verdict(server: Server, found: list[tuple[str, Finding]]) -> Text:
    dangers = sum(finding.level is Level.DANGER for _, finding in found)
    if dangers:
        return Text(f"{dangers} danger(s) for the jobs on {server.address}", "bold red")
    return Text(f"{server.address} is fit to hold jobs", "green")

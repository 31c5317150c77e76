"""`relevo audit`: whether the record of what was done is whole, what it says of one story, and copies of it."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from relevo.cli.database.connection import DEFAULT_DATABASE, DatabaseUrl, opened
from relevo.cli.shell.output import Json, complain, console, count, moment, print_json, say, table
from relevo.cli.shell.redis_server import run
from relevo.cli.work.target import plain, short
from relevo.errors import BadArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from relevo.work.audit.integrity import AuditIntegrity, Verdict
    from relevo.work.audit.trace import Trace
    from relevo.work.caller import Caller
    from relevo.work.store.database import Database

app = typer.Typer(help="The record of what was done: verify, trace, export, heads, cut.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="Slug of the tenant.")]
_SHOWN = 50
"""Findings in a table; `--json` has them all."""


@app.command()
def verify(
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    heads: Annotated[
        Path | None, typer.Option(help="A file that `relevo audit heads --to` wrote earlier, kept elsewhere.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Walk the whole audit and name what was edited, added or removed after it was written; ends with 1 when there is any.

    It may run while others work. Entries that `relevo audit cut` removed are not missed: the audit tells of them.
    """
    known = None if heads is None else _kept(heads)

    async def work() -> Verdict:
        async with opened(database_url) as database:
            integrity = _integrity(database)
            with _bar("verifying", 0 if as_json else await integrity.entries()) as told:
                return await integrity.verify(known=known, told=told)

    verdict = run(work())
    if as_json:
        print_json({**plain(verdict), "sound": verdict.sound})
    elif verdict.sound:
        cut = f"; {count(verdict.cut)} older ones were cut, as the audit tells" if verdict.cut else ""
        say(f"sound: {count(verdict.entries)} entries in {count(verdict.chains)} chains{cut}")
    else:
        found = table("what", "row", "chain", "number", "", numbers=("row", "number"))
        for finding in verdict.findings[:_SHOWN]:
            row = "-" if finding.id is None else str(finding.id)
            found.add_row(finding.kind, row, finding.chain, str(finding.number), finding.detail)
        console().print(found)
        more = len(verdict.findings) - _SHOWN
        complain(
            f"the audit is not as it was written: {len(verdict.findings)} findings in {count(verdict.entries)} entries"
            + (f", {more} of them not shown: --json has all" if more > 0 else "")
        )
    raise typer.Exit(0 if verdict.sound else 1)


@app.command()
def heads(
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    to: Annotated[Path | None, typer.Option(help="A file for `relevo audit verify --heads`.")] = None,
    as_json: Json = False,
) -> None:
    """Where every chain of the audit ends. Keep the file where nobody of the database can reach it: `verify --heads`."""

    async def work() -> list[Any]:
        async with opened(database_url) as database:
            return list(await _integrity(database).heads())

    found = run(work())
    ends = {head.chain: [head.last_no, head.last_hash] for head in found}
    if to is not None:
        to.write_text(json.dumps(ends, indent=1) + "\n")
    if as_json:
        print_json(ends)
        return
    made = table("chain", "entries", "cut", "hash of the last", numbers=("entries", "cut"))
    for head in found:
        made.add_row(head.chain, count(head.last_no), count(head.cut_no), head.last_hash)
    console().print(made)


@app.command()
def trace(
    correlation_id: Annotated[str, typer.Argument(help="What the messages of one story share.", show_default=False)],
    tenant: Tenant = "main",
    scope: Annotated[str | None, typer.Option(help="Only of this scope.")] = None,
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    as_json: Json = False,
) -> None:
    """Everything that happened under one correlation id, oldest first: messages, reviews, webhooks, who changed what."""

    async def work() -> Trace:
        from relevo.work.audit.trace import Traces

        async with opened(database_url) as database:
            caller = await _caller(database, tenant)
            return await Traces(database).of(caller, correlation_id, scope=scope)

    story = run(work())
    if as_json:
        print_json(plain(story))
        return
    made = table("at", "", "scope", "queue", "about", "what", "who", "detail")
    for step in story.steps:
        made.add_row(
            moment(step.at), step.source, step.scope or "-", step.queue or "-", step.id, step.what, step.actor or "-",
            "" if step.detail is None else short(step.detail),
        )  # fmt: skip
    console().print(made)
    if not story.complete:
        say("there is more than this: name a scope, or use `relevo audit export`", "yellow")


@app.command()
def export(
    tenant: Annotated[str | None, typer.Option(help="Slug of one tenant; all by default.")] = None,
    scope: Annotated[str | None, typer.Option(help="Only of this scope.")] = None,
    after: Annotated[int, typer.Option(help="The `id` of the last line there is already.", min=0)] = 0,
    to: Annotated[Path | None, typer.Option(help="A file to add to; the screen by default.")] = None,
    database_url: DatabaseUrl = DEFAULT_DATABASE,
) -> None:
    """The audit as JSON lines, oldest first, with the hashes, so that a copy elsewhere can vouch for the rows here."""

    async def write(out: IO[bytes]) -> int:
        import msgspec

        from relevo.work.audit.entries import Audit, AuditFilter

        lines = 0
        async with opened(database_url) as database:
            caller = None if tenant is None else await _caller(database, tenant)
            pages = Audit(database, lambda: 0).export(caller, AuditFilter(scope=scope), after=after)
            async for page in pages:
                await asyncio.to_thread(out.write, msgspec.json.Encoder().encode_lines(page))
                lines += len(page)
        return lines

    if to is None:
        run(write(sys.stdout.buffer))
        sys.stdout.flush()
        return
    with to.open("ab") as file:
        written = run(write(file))
    say(f"{count(written)} entries written to {to}")


@app.command()
def cut(
    before: Annotated[str, typer.Option(help="A moment, as in 2026-01-01 or 2026-01-01T12:00:00Z.")],
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove the entries from before a moment, of all tenants. The audit tells that it was done; export them first."""
    moment_ms = _moment_ms(before)
    if not yes:
        typer.confirm(f"Remove all audit entries from before {moment(moment_ms)}?", abort=True, err=True)

    async def work() -> int:
        from relevo.work.caller import Caller

        async with opened(database_url) as database:
            integrity = _integrity(database)
            with _bar("cutting", 0 if as_json else await integrity.entries()) as told:
                return await integrity.cut(Caller.system("cli"), moment_ms, told=told)

    removed = run(work())
    if as_json:
        print_json({"removed": removed})
    else:
        say(f"{count(removed)} entries removed")


def _integrity(database: Database) -> AuditIntegrity:
    import time

    from relevo.work.audit.integrity import AuditIntegrity

    return AuditIntegrity(database, lambda: time.time_ns() // 1_000_000)


async def _caller(database: Database, tenant: str) -> Caller:
    from relevo.work.tenants import Tenants

    tenants = Tenants(database, lambda: 0)
    return tenants.caller(await tenants.get(tenant))


def _kept(file: Path) -> dict[str, tuple[int, str]]:
    import msgspec

    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, tuple[int, str]])
    except (OSError, msgspec.MsgspecError) as error:
        remedy = "Name a file that `relevo audit heads --to` wrote."
        raise BadArgument(argument="--heads", value=str(file), reason=str(error), remedy=remedy) from error


def _moment_ms(text: str) -> int:
    from datetime import UTC, datetime

    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        remedy = "Write a day or a moment: 2026-01-01, 2026-01-01T12:00:00Z."
        raise BadArgument(argument="--before", value=text[:40], reason=str(error), remedy=remedy) from error
    return int((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000)


@contextmanager
def _bar(what: str, total: int) -> Generator[Callable[[int], None]]:
    """How far it is, on stderr, when somebody looks."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    screen = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    quiet = not (total and screen.is_terminal)
    with Progress(*columns, console=screen, disable=quiet, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)

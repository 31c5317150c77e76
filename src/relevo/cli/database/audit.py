"""`relevo audit`: whether the record of what was done is whole, what it says of one story, and copies of it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from relevo.cli.database.connection import DEFAULT_DATABASE, DatabaseUrl, ask_database
from relevo.cli.shell.durations import date_ms
from relevo.cli.shell.output import Json, complain, count, moment, one_line, readable, say, show, table
from relevo.cli.shell.progress import bar
from relevo.cli.shell.prompts import Yes, confirm
from relevo.errors import BadArgument

if TYPE_CHECKING:
    from relevo.contract.audit import Trace
    from relevo.work.audit.integrity import AuditIntegrity, Verdict
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
    """Check the whole audit and name what was edited, added or removed after it was written; exit code 1 when there is any.

    It may run while others work. Entries that `relevo audit cut` removed are not missed: the audit tells of them.
    """
    known = None if heads is None else _kept(heads)

    async def verified(database: Database) -> Verdict:
        integrity = _integrity(database)
        with bar("verifying", None if as_json else await integrity.entries(), quiet=as_json) as shown:
            return await integrity.verify(known=known, told=shown.update)

    verdict = ask_database(database_url, verified)
    cut = f"; {count(verdict.cut)} older entries were removed by `relevo audit cut`" if verdict.cut else ""
    sound = f"intact: {count(verdict.entries)} entries in {count(verdict.chains)} chains{cut}"
    found = table("what", "row", "chain", "number", "", numbers=("row", "number"))
    for finding in verdict.findings[:_SHOWN]:
        row = "-" if finding.id is None else str(finding.id)
        found.add_row(finding.kind, row, finding.chain, str(finding.number), finding.detail)
    show({**readable(verdict), "sound": verdict.sound}, as_json, sound if verdict.sound else found)
    if not verdict.sound and not as_json:
        more = len(verdict.findings) - _SHOWN
        complain(
            f"the audit was changed after it was written: {len(verdict.findings)} findings in {count(verdict.entries)} entries"
            + (f", {more} of them not shown: --json has all" if more > 0 else "")
        )
    raise typer.Exit(0 if verdict.sound else 1)


@app.command()
def heads(
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    to: Annotated[Path | None, typer.Option(help="A file for `relevo audit verify --heads`.")] = None,
    as_json: Json = False,
) -> None:
    """Show where every chain of the audit ends. Keep the file away from the database, for `verify --heads`."""
    found = ask_database(database_url, lambda database: _integrity(database).heads())
    ends = {head.chain: [head.last_no, head.last_hash] for head in found}
    if to is not None:
        to.write_text(json.dumps(ends, indent=1) + "\n")
    made = table("chain", "entries", "cut", "hash of the last", numbers=("entries", "cut"))
    for head in found:
        made.add_row(head.chain, count(head.last_no), count(head.cut_no), head.last_hash)
    show(ends, as_json, made)


@app.command()
def trace(
    correlation_id: Annotated[
        str, typer.Argument(help="The correlation id that the messages share.", show_default=False)
    ],
    tenant: Tenant = "main",
    scope: Annotated[str | None, typer.Option(help="Only of this scope.")] = None,
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    as_json: Json = False,
) -> None:
    """Show everything that happened under one correlation id, oldest first: messages, reviews, webhooks, changes."""

    async def traced(database: Database) -> Trace:
        from relevo.work.audit.trace import Traces

        return await Traces(database).of(await _caller(database, tenant), correlation_id, scope=scope)

    story = ask_database(database_url, traced)
    made = table("at", "", "scope", "queue", "about", "what", "who", "detail")
    for step in story.steps:
        made.add_row(
            moment(step.at),
            step.source,
            step.scope or "-",
            step.queue or "-",
            step.id,
            step.what,
            step.actor or "-",
            "" if step.detail is None else one_line(step.detail, 60),
        )
    more = Text("this is not all: name a scope, or use `relevo audit export`", "yellow")
    show(story, as_json, made, None if story.complete else more)


@app.command()
def export(
    tenant: Annotated[str | None, typer.Option(help="Slug of one tenant; all by default.")] = None,
    scope: Annotated[str | None, typer.Option(help="Only of this scope.")] = None,
    after: Annotated[int, typer.Option(help="The `id` of the last line you already have.", min=0)] = 0,
    to: Annotated[Path | None, typer.Option(help="A file to append to; stdout by default.")] = None,
    database_url: DatabaseUrl = DEFAULT_DATABASE,
) -> None:
    """Export the audit as JSON lines, oldest first, with the hashes, so that a copy elsewhere can prove the rows here."""

    async def write(database: Database, out: IO[bytes]) -> int:
        import msgspec

        from relevo.work.audit.entries import Audit, AuditFilter

        lines = 0
        caller = None if tenant is None else await _caller(database, tenant)
        pages = Audit(database).export(caller, AuditFilter(scope=scope), after=after)
        async for page in pages:
            await asyncio.to_thread(out.write, msgspec.json.Encoder().encode_lines(page))
            lines += len(page)
        return lines

    if to is None:
        ask_database(database_url, lambda database: write(database, sys.stdout.buffer))
        sys.stdout.flush()
        return
    with to.open("ab") as file:
        written = ask_database(database_url, lambda database: write(database, file))
    say(f"{count(written)} entries written to {to}")


@app.command()
def cut(
    before: Annotated[str, typer.Option(help="A moment, as in 2026-01-01 or 2026-01-01T12:00:00Z.")],
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove the entries from before a moment, of all tenants. The audit records that it was done; export them first."""
    moment_ms = date_ms("--before", before)
    confirm(f"Remove all audit entries from before {moment(moment_ms)}?", yes=yes)

    async def remove(database: Database) -> int:
        from relevo.work.caller import Caller

        integrity = _integrity(database)
        with bar("cutting", None if as_json else await integrity.entries(), quiet=as_json) as shown:
            return await integrity.cut(Caller.system("cli"), moment_ms, told=shown.update)

    removed = ask_database(database_url, remove)
    show({"removed": removed}, as_json, f"{count(removed)} entries removed")


def _integrity(database: Database) -> AuditIntegrity:
    from relevo.work.audit.integrity import AuditIntegrity
    from relevo.work.clock import wall_clock
    from relevo.work.store.transactions import Transactions

    return AuditIntegrity(Transactions(database, wall_clock), database, wall_clock)


async def _caller(database: Database, tenant: str) -> Caller:
    from relevo.work.clock import wall_clock
    from relevo.work.store.transactions import Transactions
    from relevo.work.tenancy.tenants import Tenants

    tenants = Tenants(Transactions(database, wall_clock), database, wall_clock)
    return tenants.caller(await tenants.get(tenant))


def _kept(file: Path) -> dict[str, tuple[int, str]]:
    import msgspec

    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, tuple[int, str]])
    except (OSError, msgspec.MsgspecError) as error:
        remedy = "Name a file that `relevo audit heads --to` wrote."
        raise BadArgument(argument="--heads", value=str(file), reason=str(error), remedy=remedy) from error

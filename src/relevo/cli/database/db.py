"""`relevo db`: the tables of work queues: bring them up to date, say where they are, compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relevo.cli.database.connection import DEFAULT_DATABASE, DatabaseUrl, ask_database
from relevo.cli.shell.output import Json, complain, show

if TYPE_CHECKING:
    from relevo.work.store.database import Database

app = typer.Typer(help="The tables of work queues: upgrade, current, check.", no_args_is_help=True)


@app.command()
def upgrade(
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    to: Annotated[str, typer.Option(help="A revision; the newest by default.")] = "head",
    as_json: Json = False,
) -> None:
    """Upgrade the tables. Safe to run again, and from several machines at once."""
    from relevo.work.store import schema

    before, after = ask_database(database_url, lambda database: schema.upgrade(database, to))
    moved = f"upgraded from revision {before or 'none'} to {after}"
    show({"before": before, "after": after}, as_json, f"up to date: revision {after}" if before == after else moved)


@app.command()
def current(database_url: DatabaseUrl = DEFAULT_DATABASE, as_json: Json = False) -> None:
    """Show the revision of the tables, and the one this version of relevo needs."""
    from relevo.work.store import schema

    found, needed = ask_database(database_url, schema.current), schema.head()
    words = f"at revision {found or 'none'}; this version of relevo needs {needed}"
    show({"current": found, "needed": needed}, as_json, words)


@app.command()
def check(database_url: DatabaseUrl = DEFAULT_DATABASE, as_json: Json = False) -> None:
    """Compare the tables with what this version of relevo expects; exit code 1 when they differ."""
    from relevo.work.store import schema

    async def compare(database: Database) -> list[str]:
        found = await schema.current(database)
        behind = [] if found == schema.head() else [f"revision {found or 'none'} instead of {schema.head()}"]
        return behind or await schema.differences(database)

    differences = ask_database(database_url, compare)
    if differences and not as_json:
        complain("the tables differ: " + "; ".join(differences))
    else:
        show({"differences": differences}, as_json, "the tables match this version of relevo")
    raise typer.Exit(1 if differences else 0)

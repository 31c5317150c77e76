"""`relevo db`: the tables of work queues: bring them up to date, say where they are, compare them."""

from __future__ import annotations

from typing import Annotated

import typer

from relevo.cli.database.connection import DEFAULT_DATABASE, DatabaseUrl, opened
from relevo.cli.shell.output import Json, complain, print_json, say
from relevo.cli.shell.redis_server import run

app = typer.Typer(help="The tables of work queues: upgrade, current, check.", no_args_is_help=True)


@app.command()
def upgrade(
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    to: Annotated[str, typer.Option(help="A revision; the newest by default.")] = "head",
    as_json: Json = False,
) -> None:
    """Bring the tables up to date. Safe to run from several machines at once, and again."""
    from relevo.work.store import schema

    async def work() -> tuple[str | None, str]:
        async with opened(database_url) as database:
            return await schema.upgrade(database, to)

    before, after = run(work())
    if as_json:
        print_json({"before": before, "after": after})
    elif before == after:
        say(f"up to date: revision {after}")
    else:
        say(f"from revision {before or 'none'} to {after}")


@app.command()
def current(database_url: DatabaseUrl = DEFAULT_DATABASE, as_json: Json = False) -> None:
    """Say at which revision the tables are, and which one this program needs."""
    from relevo.work.store import schema

    async def work() -> str | None:
        async with opened(database_url) as database:
            return await schema.current(database)

    found, needed = run(work()), schema.head()
    if as_json:
        print_json({"current": found, "needed": needed})
    else:
        say(f"at revision {found or 'none'}; this program needs {needed}")


@app.command()
def check(database_url: DatabaseUrl = DEFAULT_DATABASE, as_json: Json = False) -> None:
    """Compare the tables with what the program expects; ends with 1 when they differ."""
    from relevo.work.store import schema

    async def work() -> list[str]:
        async with opened(database_url) as database:
            found = await schema.current(database)
            behind = [] if found == schema.head() else [f"revision {found or 'none'} instead of {schema.head()}"]
            return behind or await schema.differences(database)

    differences = run(work())
    if as_json:
        print_json({"differences": differences})
    elif not differences:
        say("the tables are as they should be")
    else:
        complain("the tables differ: " + "; ".join(differences))
    raise typer.Exit(1 if differences else 0)

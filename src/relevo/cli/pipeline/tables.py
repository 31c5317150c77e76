"""`relevo pipeline sql`, `upkeep`, `migrate` and `publish`: the lake's tables themselves. None of them starts a JVM."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.text import Text

from relevo.cli.pipeline.app import DEFAULT_LAKE, LakeFolder, table_command
from relevo.cli.shell.output import Json, count, show, table
from relevo.cli.shell.progress import bar
from relevo.cli.shell.prompts import Yes, confirm
from relevo.errors import BadArgument


@table_command
def sql(
    query: Annotated[
        str, typer.Argument(help='Such as "SELECT queue, max(p99_ms) FROM relevo_gold.latency GROUP BY 1".')
    ],
    lake: LakeFolder = DEFAULT_LAKE,
    limit: Annotated[int, typer.Option(help="Rows to show to people.", min=1)] = 100,
    as_json: Json = False,
) -> None:
    """Ask the tables in SQL, without Spark. Only reads."""
    from relevo.pipeline.lake.lake import Lake

    found = Lake(lake).sql(query)
    if as_json:
        show(found.to_pylist(), as_json)
        return
    shown = table(*found.column_names)
    for row in found.slice(0, limit).to_pylist():
        shown.add_row(*("" if value is None else str(value) for value in row.values()))
    more = found.num_rows - limit
    show(found, as_json, shown, Text(f"{count(more)} more rows: --limit shows them", "dim") if more > 0 else None)


@table_command
def upkeep(
    lake: LakeFolder = DEFAULT_LAKE,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Remove older days of a table: bronze.events=90d; may be repeated."),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Merge small files and delete those that nobody needs; a build does both as well. May run beside all else."""
    from relevo.pipeline.commands.keep_up import keep_up
    from relevo.pipeline.lake.lake import Lake
    from relevo.pipeline.lake.upkeep import expire

    where, today = Lake(lake), int(time.time() // 86_400)
    where.must_exist()
    wanted = dict(_kept(text) for text in keep or ())
    if wanted:
        said = ", ".join(f"{name} older than {days} days" for name, days in wanted.items())
        confirm(f"remove rows of {said}?", yes=yes)
    with bar("looking after the lake", quiet=as_json):
        gone = {name: expire(where, name, today - days) for name, days in wanted.items()}
        done = keep_up(where)
    show(
        {"removed_rows": gone, "merged_files": done.merged, "deleted_files": done.deleted},
        as_json,
        *(f"{name}: {count(rows)} rows removed" for name, rows in gone.items()),
        f"{count(done.merged)} small files merged, {count(done.deleted)} old files deleted",
    )


@table_command
def migrate(lake: LakeFolder = DEFAULT_LAKE, as_json: Json = False) -> None:
    """Bring a lake of the form before Delta over, where it lies; no data file is copied."""
    from relevo.pipeline.lake.lake import Lake
    from relevo.pipeline.lake.migration import migrate as bring_over

    with bar("bringing tables over", quiet=as_json) as shown:
        done = bring_over(Lake(lake), told=lambda name: shown.update(label=name))
    moved = f"{count(done.rows)} rows in {count(done.files)} files of {done.tables} tables are in Delta's log now"
    anew = f"{len(done.to_build)} tables are made anew by `relevo pipeline build`"
    nothing = not done.tables and not done.to_build
    show(
        done,
        as_json,
        "every table is a Delta table already" if nothing else moved,
        anew if done.to_build else None,
    )


@table_command
def publish(
    lake: LakeFolder = DEFAULT_LAKE,
    iceberg: Annotated[
        bool, typer.Option("--iceberg", help="As Iceberg tables, in a catalog beside the lake or in --catalog.")
    ] = False,
    catalog: Annotated[
        str | None, typer.Option(help="A catalog that pyiceberg is configured for; else an SQLite file in the lake.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the newest version of every table to readers of another format. No data file is copied."""
    from relevo.pipeline.lake.iceberg import publish as show_them
    from relevo.pipeline.lake.lake import Lake

    if not iceberg:
        remedy = "Write --iceberg. Readers of Delta need nothing: the folders are Delta tables."
        raise BadArgument(argument="format", value="none", reason="say which one", remedy=remedy)
    with bar("publishing", quiet=as_json) as shown:
        made = show_them(Lake(lake), catalog, told=lambda name: shown.update(label=name))
    show(
        made, as_json, *(f"{name}: {count(rows)} rows" for name, rows in made.items()), nothing="no table has rows yet"
    )


def _kept(text: str) -> tuple[str, int]:
    from relevo.pipeline.lake.tables import BY_NAME

    name, _, days = text.partition("=")
    fits = name in BY_NAME and BY_NAME[name].layer != "silver" and BY_NAME[name].span == "day"
    if not fits or not days.removesuffix("d").isdigit():
        remedy = "Write bronze.events=90d. Silver is what gold is made of, and is kept."
        raise BadArgument(
            argument="--keep", value=text, reason="not a table of days, or no number of days", remedy=remedy
        )
    return name, int(days.removesuffix("d"))

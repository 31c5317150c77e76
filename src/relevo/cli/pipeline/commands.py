"""`relevo pipeline`: the lake and what is made of it. Spark starts only for commands that need it."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from relevo.cli.database.connection import ask_database
from relevo.cli.pipeline.app import DEFAULT_LAKE, LakeFolder, app, command, table_command
from relevo.cli.pipeline.lines import built_lines, figures_lines, status_lines
from relevo.cli.pipeline.on_spark import Master, Objectives, server_options, spark_session, told_to_stop
from relevo.cli.shell.durations import instant_ms
from relevo.cli.shell.output import Json, count, print_json, show
from relevo.cli.shell.progress import bar
from relevo.cli.shell.prompts import DryRun, Yes, confirm
from relevo.errors import BadArgument

if TYPE_CHECKING:
    from relevo.pipeline.commands.lineage import Lineage
    from relevo.pipeline.commands.progress import Step
    from relevo.work.store.database import Database

__all__ = ["app"]

LineageUrl = Annotated[
    str | None,
    typer.Option(
        "--lineage",
        envvar="OPENLINEAGE_URL",
        help="An OpenLineage server to tell what each table was made from; OPENLINEAGE_API_KEY is its key.",
    ),
]


@command
def ingest(
    ctx: typer.Context,
    lake: LakeFolder = DEFAULT_LAKE,
    queues: Annotated[str, typer.Option(help="Names or globs, separated by commas.")] = "*",
    source: Annotated[
        str, typer.Option(help="What this server is called in the lake; its address by default.", show_default=False)
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Continue until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two reads, with --follow.", min=0.1)] = 10.0,
    rows: Annotated[int, typer.Option(help="Events a batch.", min=1)] = 500_000,
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Continue when events were trimmed before they were read.")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(help="Answer /metrics on this port of 127.0.0.1: rows behind, events.", min=1, max=65535),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Where Spark keeps how far it is; in the lake, if that is a folder here.")
    ] = None,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Read events from Redis into the lake, each exactly once."""
    from relevo.cli.pipeline.ingest_metrics import served
    from relevo.pipeline.commands.ingest import Batch, Ingest
    from relevo.pipeline.lake.lake import Lake

    options = {
        **server_options(ctx),
        "queues": queues,
        "maxRowsPerTrigger": str(rows),
        "failOnDataLoss": "false" if lossy else "true",
        **({"source": source} if source else {}),
    }
    with (
        served(metrics_port) as metrics,
        bar("starting Spark", quiet=as_json) as shown,
        spark_session(master) as spark,
    ):
        shown.update(label="reading events")

        def taken(batch: Batch) -> None:
            if metrics is not None:
                metrics.taken(batch)
            shown.update(more=batch.rows, label=f"events (batch {batch.number})")
            if as_json and follow:
                print_json(batch, lines=True)

        def behind(rows: int) -> None:
            if metrics is not None:
                metrics.behind(rows)

        job = Ingest(Lake(lake), spark, taken=taken, behind=behind, checkpoint=checkpoint)
        with told_to_stop() if follow else nullcontext() as stop:
            new = job.once(options) if stop is None else job.follow(options, every_s=every, stop=stop.is_set)
    events = Lake(lake).table("bronze.events").rows
    words = f"{count(new)} new events; {count(events)} in {lake}"
    show({"new": new, "events": events, "lake": str(lake)}, as_json, words)


@command
def build(
    lake: LakeFolder = DEFAULT_LAKE,
    objective: Objectives = None,
    wait_target: Annotated[float, typer.Option(help="Mean wait in seconds to plan workers for.", min=0.001)] = 10.0,
    platform_queues: Annotated[
        bool, typer.Option("--platform-queues", help="Also count the platform's own queues in gold.")
    ] = False,
    lineage: LineageUrl = None,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Build silver and gold; only what has changed is built again."""
    from relevo.pipeline.commands.build import BUILT
    from relevo.pipeline.commands.build import build as run_build
    from relevo.pipeline.lake.gold.objectives import DEFAULT, Objective
    from relevo.pipeline.lake.lake import Lake

    where = Lake(lake)
    where.must_exist()
    told = _lineage(lineage)
    aims = tuple(Objective.parse(text) for text in objective) if objective else DEFAULT
    with bar("starting Spark", len(BUILT), quiet=as_json) as shown, spark_session(master) as spark:

        def tell(step: Step) -> None:
            shown.update(more=0 if step.state == "began" else 1, label=step.table)

        built = run_build(
            where,
            spark,
            objectives=aims,
            wait_target_s=wait_target,
            tell=tell,
            platform_queues=platform_queues,
            lineage=told,
        )
    show({"seconds": round(built.seconds, 3), "steps": built.steps}, as_json, *built_lines(built))
    if built.broken:
        raise typer.Exit(1)


@table_command
def report(
    lake: LakeFolder = DEFAULT_LAKE,
    to: Annotated[Path, typer.Option("--to", "-o", help="Where to write the page.")] = Path("report.html"),
    queue: Annotated[list[str] | None, typer.Option("--queue", "-q", help="Only this queue; may be repeated.")] = None,
    days: Annotated[int, typer.Option(help="How many days back.", min=1)] = 7,
    title: Annotated[str, typer.Option(help="The page's title.")] = "Queue report",
    as_json: Json = False,
) -> None:
    """Write gold as one self-contained HTML page, and print its main numbers."""
    from relevo.pipeline.commands.report import report as write
    from relevo.pipeline.lake.lake import Lake

    figures = write(Lake(lake), to, queues=queue or (), days=days, title=title)
    value = {"page": str(to), "queues": figures.queues, "totals": figures.totals, "slo": figures.slo}
    show(value, as_json, *figures_lines(figures), f"report written to {to}")


@table_command
def status(lake: LakeFolder = DEFAULT_LAKE, as_json: Json = False) -> None:
    """Show every table: how new it is, how large, and what is wrong with it."""
    from relevo.pipeline.commands.status import status as look
    from relevo.pipeline.lake.lake import Lake

    tables = look(Lake(lake))
    show(tables, as_json, *status_lines(tables))
    if not all(table.well for table in tables):
        raise typer.Exit(1)


@command
def refresh(
    ctx: typer.Context,
    lake: LakeFolder = DEFAULT_LAKE,
    queues: Annotated[str, typer.Option(help="Names or globs, separated by commas.")] = "*",
    to: Annotated[Path | None, typer.Option("--to", "-o", help="Where to write the report.")] = None,
    objective: Objectives = None,
    lineage: LineageUrl = None,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Ingest, build and report in one go: Spark starts once."""
    told = _lineage(lineage)
    options = {**server_options(ctx), "queues": queues}
    from relevo.pipeline.commands.build import build as run_build
    from relevo.pipeline.commands.ingest import Ingest
    from relevo.pipeline.commands.report import report as write
    from relevo.pipeline.lake.gold.objectives import DEFAULT, Objective
    from relevo.pipeline.lake.lake import Lake

    where = Lake(lake)
    aims = tuple(Objective.parse(text) for text in objective) if objective else DEFAULT
    with bar("starting Spark", quiet=as_json) as shown, spark_session(master) as spark:
        shown.update(label="reading events")
        new = Ingest(where, spark, taken=lambda batch: shown.update(more=batch.rows)).once(options)
        built = run_build(where, spark, objectives=aims, tell=lambda step: shown.update(label=step.table), lineage=told)
    if to is not None:
        write(where, to)
    value = {"new": new, "seconds": round(built.seconds, 3), "broken": [step.table for step in built.broken]}
    show(value, as_json, f"{count(new)} new events", *built_lines(built))
    if built.broken:
        raise typer.Exit(1)


@table_command
def archive(
    database: Annotated[str, typer.Option(envvar="RELEVO_DATABASE_URL", help="The database of the work queues.")],
    lake: LakeFolder = DEFAULT_LAKE,
    older_than: Annotated[str, typer.Option(help='Archived before: a date, or how long ago ("30d").')] = "30d",
    batch: Annotated[int, typer.Option(help="Messages at a time.", min=1)] = 5_000,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move old messages of work queues from SQL to the lake: verified by count and hash, then deleted."""
    from relevo.pipeline.commands.archive import Archive, Archived
    from relevo.pipeline.lake.lake import Lake

    before_ms = instant_ms("--older-than", older_than)

    async def move(store: Database) -> Archived | None:
        job = Archive(Lake(lake), store)
        waiting = await job.waiting(before_ms)
        if dry_run:
            show({"would_archive": waiting}, as_json, f"would archive {count(waiting)} messages")
            return None
        if waiting:
            confirm(f"move {count(waiting)} messages from the database to {lake}?", yes=yes)
        with bar("messages", waiting, quiet=as_json) as shown:
            return await job.run(before_ms, batch=batch, told=lambda table, number: shown.update(number, label=table))

    done = ask_database(database, move)
    if done is None:
        return
    gone = done.erased.messages + done.erased.reviews + done.erased.events
    erased = f"erased the content of {count(gone)} rows of the lake; run `relevo pipeline build` to renew what was made of them"
    show(
        done,
        as_json,
        f"archived {count(done.messages)} messages; copied {count(done.audit)} audit entries, which stay in the database",
        erased if done.erased.erasures else None,
    )


@command
def replay(
    ctx: typer.Context,
    queue: Annotated[str, typer.Argument(help="The queue of the dead letters.")],
    where: Annotated[
        str | None, typer.Option(help="Spark SQL: \"reason = 'stalled' AND detail LIKE '%timeout%'\".")
    ] = None,
    change: Annotated[list[str] | None, typer.Option("--set", help="name=SQL or data=SQL; may be repeated.")] = None,
    to: Annotated[str | None, typer.Option(help="Another queue to send them to.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Send back dead letters that SQL selects, changed by SQL on the way."""
    from relevo.pipeline.commands.replay import replay as run_replay

    meant: dict[str, Any] = {
        "where": where,
        "change": dict(_assignment(text) for text in change or ()),
        "to": to,
        "options": server_options(ctx),
    }
    with bar("starting Spark", quiet=as_json) as shown, spark_session(master) as spark:
        shown.update(label="looking at dead letters")
        done = run_replay(spark, queue, dry_run=True, **meant)
        if not dry_run and done.chosen:
            if not yes:
                with shown.hidden():
                    confirm(f"replay {count(done.chosen)} of {count(done.letters)} dead letters of {queue}?")
            shown.update(label="sending", total=done.chosen)
            done = run_replay(spark, queue, told=lambda at, _: shown.update(at), **meant)
    verb = "would replay" if dry_run else "replayed"
    show(
        done,
        as_json,
        f"{verb} {count(done.chosen if dry_run else done.sent)} of {count(done.letters)} dead letters of {queue}",
        "  ".join(f"{reason}: {count(number)}" for reason, number in done.reasons.items()),
        *(
            Text(f"  {letter['job_id']}  {letter['name'] or '-'}  {letter['data']}", "dim")
            for letter in (done.sample if dry_run else ())
        ),
    )


@command
def load(
    ctx: typer.Context,
    queue: Annotated[str, typer.Argument(help="Where the jobs go.")],
    path: Annotated[Path, typer.Argument(help="A file or folder: CSV, JSON or Parquet.")],
    sql: Annotated[str | None, typer.Option(help="Spark SQL over the table `rows`; its result is loaded.")] = None,
    name: Annotated[str | None, typer.Option(help="The name of the jobs, where rows have none.")] = None,
    kind: Annotated[
        str | None, typer.Option("--format", help="csv, json or parquet, if the path does not say.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Load a file again that was loaded before.")] = False,
    dry_run: DryRun = False,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Make a job of every row. Run a load that was cut short again, and it continues where it stopped."""
    from relevo.pipeline.commands import load as job

    options = server_options(ctx)
    with bar("starting Spark", quiet=as_json) as shown, spark_session(master) as spark:
        rows = job.table(spark, path, kind)
        rows = rows if sql is None else job.query(spark, rows, sql)
        shown.update(label=f"loading {path.name}")
        write_id = None if again else job.write_id_of(path, queue, sql)
        done = job.load(rows, queue, name=name, write_id=write_id, dry_run=dry_run, options=options)
    sample = done.sample if dry_run else ()
    show(
        done,
        as_json,
        f"{'would load' if dry_run else 'loaded'} {count(done.rows)} rows into {queue}",
        *(Text(f"  {row.get('name') or '-'}  {row.get('data')}", "dim") for row in sample),
    )


# --- what they share -----------------------------------------------------------------------------------------------------


def _lineage(url: str | None) -> Lineage | None:
    from relevo.pipeline.commands.lineage import Lineage

    namespace = os.environ.get("OPENLINEAGE_NAMESPACE", "relevo")
    return None if url is None else Lineage(url, namespace, os.environ.get("OPENLINEAGE_API_KEY"))


def _assignment(text: str) -> tuple[str, str]:
    name, equals, expression = text.partition("=")
    if not equals:
        raise BadArgument(argument="--set", value=text, reason="it has no `=`", remedy="Write data=SQL or name=SQL.")
    return name.strip(), expression.strip()


from relevo.cli.pipeline import tables as _tables  # noqa: E402 - its commands come last in the help
from relevo.cli.pipeline import watch as _watch  # noqa: E402

del _tables, _watch

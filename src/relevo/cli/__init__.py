"""The command line: `relevo`. One group of commands a file; this one puts them together."""

from __future__ import annotations

from typing import Annotated

import typer

from relevo import version
from relevo.cli import (
    add,
    audit,
    bench,
    db,
    demo,
    dlq,
    doctor,
    events,
    flow,
    inspect,
    job,
    lanes,
    pipeline,
    repeatable,
    serve,
    up,
    upkeep,
    watch,
    work,
    worker,
)
from relevo.cli.commands import Commands
from relevo.cli.server import DEFAULT_URL, Server

app = typer.Typer(
    name="relevo",
    cls=Commands,
    help="Work distribution on Redis: queues you can look into, follow, and repair.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"relevo {version()}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    redis_url: Annotated[
        str,
        typer.Option(
            envvar="RELEVO_REDIS_URL", help="redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://"
        ),
    ] = DEFAULT_URL,
    patience: Annotated[float, typer.Option(help="Seconds to wait for the server to answer.", min=0.1)] = 3.0,
    _: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    ctx.obj = Server(redis_url, patience)


app.command("demo")(demo.demo)
app.command("up")(up.up)
app.command("worker")(worker.worker)
app.command("serve")(serve.serve)
app.command("agents")(serve.agents)
app.add_typer(db.app, name="db")
app.add_typer(audit.app, name="audit")
app.add_typer(work.app, name="work")
app.command("add")(add.add)
app.command("inspect")(inspect.inspect)
app.command("watch")(watch.watch)
app.command("events")(events.events)
app.add_typer(job.app, name="job")
app.add_typer(dlq.app, name="dlq")
app.add_typer(repeatable.app, name="repeatable")
app.add_typer(lanes.app, name="lanes")
app.add_typer(flow.app, name="flow")
app.add_typer(pipeline.app, name="pipeline")
for command in (upkeep.pause, upkeep.resume, upkeep.drain, upkeep.clean, upkeep.obliterate):
    app.command(command.__name__)(command)
app.command("doctor")(doctor.doctor)
app.command("bench")(bench.bench)


def main() -> None:
    """The console script."""
    app(prog_name="relevo")

"""The command line: `relevo`. One group of commands a file; commands.py says which, this one what all of them are told."""

from __future__ import annotations

from typing import Annotated

import typer

from relevo import version
from relevo.cli.commands import Commands
from relevo.cli.shell.redis_server import REDIS_URL_HELP, Server

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
    redis_url: Annotated[str | None, typer.Option(envvar="RELEVO_REDIS_URL", help=REDIS_URL_HELP)] = None,
    patience: Annotated[float, typer.Option(help="Seconds to wait for the server to answer.", min=0.1)] = 3.0,
    _: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    ctx.obj = Server(redis_url, patience)


def main() -> None:
    """The console script."""
    app(prog_name="relevo")

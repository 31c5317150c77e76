"""The group `relevo work`: what all its commands are told, where they are and with which key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relevo.cli.shell.run_file import data_folder
from relevo.cli.work.target import Target

app = typer.Typer(help="Work queues over HTTP: publish, claim, settle, search, replay, keys.", no_args_is_help=True)


@app.callback()
def options(
    ctx: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="RELEVO_URL", help="Where they are served; else where `relevo up` of this folder serves them."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(envvar="RELEVO_KEY", help="An API key; else the one `relevo up` has kept.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(envvar="RELEVO_DATA", help="The data folder of `relevo up`. [data]")
    ] = None,
) -> None:
    ctx.obj = Target(url, key, data or data_folder())

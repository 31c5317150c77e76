"""The group `relevo work`: what all its commands are told, where they are and with which key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relevo.cli.work.target import Target, find_key

app = typer.Typer(help="Work queues over HTTP: publish, claim, settle, search, replay, keys.", no_args_is_help=True)


@app.callback()
def options(
    ctx: typer.Context,
    url: Annotated[
        str | None, typer.Option(envvar="RELEVO_URL", help="Where they are served; this machine by default.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(envvar="RELEVO_KEY", help="An API key; else the one `relevo up` has kept.")
    ] = None,
    data: Annotated[
        Path, typer.Option(envvar="RELEVO_DATA", help="The data folder of `relevo up`, for its key.")
    ] = Path("data"),
) -> None:
    ctx.obj = Target(url, find_key(key, data))

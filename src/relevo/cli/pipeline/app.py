"""What the commands of `relevo pipeline` share: the group, the lake they work on, and the check for what is installed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer

from relevo.pipeline.session import require_lake, require_spark

P = ParamSpec("P")

app = typer.Typer(help="The data pipeline: ingest, build, report, sql, archive, replay, load.", no_args_is_help=True)

LakeFolder = Annotated[
    str,
    typer.Option(
        "--lake", envvar="RELEVO_LAKE", help="The lake: a folder, or s3://, abfss://, gs://, hdfs:// and a path."
    ),
]
DEFAULT_LAKE = "lake"


def command(job: Callable[P, None]) -> Callable[P, None]:
    """A command that first says what to install, where something is missing; its help is there without."""
    return _checked(job, require_spark)


def table_command(job: Callable[P, None]) -> Callable[P, None]:
    """As `command`, for one that reads and writes tables without Spark."""
    return _checked(job, require_lake)


def _checked(job: Callable[P, None], require: Callable[[], None]) -> Callable[P, None]:
    @app.command()
    @functools.wraps(job)
    def checked(*arguments: P.args, **options: P.kwargs) -> None:
        require()
        job(*arguments, **options)

    return checked

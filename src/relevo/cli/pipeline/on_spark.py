"""What the commands that start Spark share: a session, a way to stop, and the server they read from."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from relevo.cli.shell.redis_server import server_of
from relevo.errors import SparkFailed
from relevo.pipeline.session import log_to_tell, running, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Master = Annotated[
    str | None, typer.Option(envvar="RELEVO_SPARK_MASTER", help="Spark's master; all cores of this machine by default.")
]
Objectives = Annotated[
    list[str] | None,
    typer.Option("--objective", help="queue=share%@seconds, such as 'emails=99.5%@30'; may be repeated."),
]


@contextmanager
def spark_session(master: str | None) -> Generator[SparkSession]:
    """A session for this command; one that runs in this process already is used, and left running."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from relevo.pipeline.cause import cause_of

    ours = running() is None
    spark = session(master, app="relevo pipeline")
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(reason=cause_of(error), log=log_to_tell(spark)) from error
    finally:
        if ours:
            spark.stop()


@contextmanager
def told_to_stop() -> Generator[threading.Event]:
    """Is set by Ctrl-C or SIGTERM: an exception in the middle of a talk with the JVM would leave both confused."""
    stop = threading.Event()

    def heard(_number: int, _frame: object) -> None:
        stop.set()

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def server_options(ctx: typer.Context) -> dict[str, str]:
    """The server as an option of our data source. It is asked first: when it is away, nobody waits for Spark to hear so."""
    server = server_of(ctx)
    server.must_answer()
    return {"url": server.url}

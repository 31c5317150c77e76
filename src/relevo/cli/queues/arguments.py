"""Arguments that the commands of stream queues share."""

from __future__ import annotations

from typing import Annotated

import typer

from relevo.cli.shell.completion import complete_queue

QueueName = Annotated[
    str,
    typer.Argument(metavar="QUEUE", help="The queue's name.", show_default=False, autocompletion=complete_queue),
]
Group = Annotated[str, typer.Option(help="The consumer group of its workers.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id.", show_default=False)]

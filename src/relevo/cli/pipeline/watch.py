"""`relevo pipeline watch`: alerts about jobs and queues while it happens."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from relevo.cli.pipeline.app import DEFAULT_LAKE, LakeFolder, command
from relevo.cli.pipeline.on_spark import Master, Objectives, server_options, spark_session, told_to_stop
from relevo.cli.shell.output import Json, count, print_json, show
from relevo.cli.shell.progress import bar

if TYPE_CHECKING:
    from relevo.pipeline.watch.alert import Alert

TOKEN = "RELEVO_WEBHOOK_TOKEN"  # noqa: S105 - the name of a variable


@command
def watch(
    ctx: typer.Context,
    queues: Annotated[str, typer.Option(help="Names or globs, separated by commas.")] = "*",
    stuck: Annotated[
        list[str] | None,
        typer.Option(help="queue=seconds: a job may run for so long; '*=900' by default, may be repeated."),
    ] = None,
    overdue: Annotated[
        list[str] | None,
        typer.Option(help="queue=seconds: a job may wait for so long; '*=3600' by default, may be repeated."),
    ] = None,
    silent: Annotated[
        list[str] | None, typer.Option(help="queue=seconds: something happens at least so often; may be repeated.")
    ] = None,
    objective: Objectives = None,
    burn: Annotated[
        float, typer.Option(help="How many times too fast an error budget may burn over an hour.", min=0.001)
    ] = 14.0,
    to_queue: Annotated[str | None, typer.Option(help="A stream queue that alerts become jobs of.")] = None,
    webhook: Annotated[
        str | None, typer.Option(help=f"Post each alert there as JSON; {TOKEN} is sent as a bearer token.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    lake: LakeFolder = DEFAULT_LAKE,
    checkpoint: Annotated[
        str | None, typer.Option(help="Where Spark keeps what it knows; in the lake, if that is a folder here.")
    ] = None,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Tell what goes wrong while it does: stuck and overdue jobs, silent queues, burning objectives."""
    from relevo.pipeline.commands.watch import Watch, checkpoint_of
    from relevo.pipeline.lake.gold.objectives import Objective
    from relevo.pipeline.lake.lake import Lake
    from relevo.pipeline.watch.delivery import AlertQueue, Webhook
    from relevo.pipeline.watch.rules import Rules, TimeLimit

    defaults = Rules()
    rules = Rules(
        stuck=[TimeLimit.parse("--stuck", text) for text in stuck or ()] or defaults.stuck,
        overdue=[TimeLimit.parse("--overdue", text) for text in overdue or ()] or defaults.overdue,
        silent=[TimeLimit.parse("--silent", text) for text in silent or ()],
        objectives=[Objective.parse(text) for text in objective or ()],
        burn=burn,
    )
    hook = None if webhook is None else Webhook(webhook, os.environ.get(TOKEN))
    options = {**server_options(ctx), "queues": queues}
    with bar("starting Spark", quiet=as_json) as shown, spark_session(master) as spark:
        shown.update(label="watching")

        def told(alerts: Sequence[Alert]) -> None:
            for alert in alerts:
                if as_json:
                    print_json(alert.document(), lines=True)
                else:
                    with shown.hidden():
                        show(alert, as_json, Text(alert.sentence(), "red" if alert.state == "open" else "green"))
            shown.update(more=len(alerts), label="alerts")

        job = Watch(
            spark,
            rules,
            checkpoint=checkpoint_of(Lake(lake), options, checkpoint),
            queue=None if to_queue is None else AlertQueue(options["url"], to_queue),
            webhook=hook,
            told=told,
        )
        if once:
            number = job.once(options)
        else:
            with told_to_stop() as stop:
                number = job.follow(options, every_s=every, stop=stop.is_set)
    if not as_json:
        show({"alerts": number}, as_json, f"{count(number)} alerts")

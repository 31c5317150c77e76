"""`relevo demo`: a queue's life in a minute and a half, and a report of it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from relevo.cli.shell.output import console
from relevo.demo.story import Story


def demo(
    data: Annotated[
        Path | None,
        typer.Option(help="Keep the server's data in this folder; by default it is deleted after the demo."),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="The same story with less of everything.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="Where to write the report; by default the folder for temporary files.")
    ] = None,
) -> None:
    """Produce, run, retry, delay, schedule, flow, limit, dead-letter, replay, kill, report: and check that nothing was lost."""
    page = report or (data or Path(tempfile.mkdtemp(prefix="relevo-report-"))) / "report.html"
    with tempfile.TemporaryDirectory(prefix="relevo-demo-") as folder:
        story = Story(data or Path(folder), page.absolute(), console(), fast=fast)
        if not asyncio.run(story.tell()):
            raise typer.Exit(1)

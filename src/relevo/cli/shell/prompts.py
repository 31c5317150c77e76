"""Before something is destroyed: a question, or --yes; while it takes long: a sign of life."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from relevo.cli.shell.output import console
from relevo.errors import BadArgument

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be changed.")]


def confirm(question: str, *, yes: bool = False) -> None:
    """Goes on after a yes, or when --yes was given; anything else is an error, so that a script notices."""
    if not yes and not typer.confirm(question, err=True):
        remedy = "Answer y, or pass --yes."
        raise BadArgument(argument="answer", value="no", reason="nothing was changed", remedy=remedy)


@asynccontextmanager
async def busy(what: str, *, quiet: bool) -> AsyncGenerator[None]:
    """Shows on a terminal that `what` is under way."""
    screen = console(stderr=True)
    if quiet or not screen.is_terminal:
        yield
        return
    with screen.status(what):
        yield

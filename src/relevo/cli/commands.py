"""How commands end: an error of ours is one red line and exit code 1, Ctrl-C is quiet."""

from __future__ import annotations

import typer
from typer.core import TyperGroup

from relevo.cli.screen import complain
from relevo.errors import RelevoError

INTERRUPTED = 130


class Commands(TyperGroup):
    """The group all commands live in. Groups inside it need nothing of their own: errors pass through to here."""

    def invoke(self, ctx: typer.Context) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            return super().invoke(ctx)
        except RelevoError as error:
            complain(str(error))
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

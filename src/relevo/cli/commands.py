"""How commands end: an error of ours is one red line and exit code 1 (2 when the call itself is wrong), Ctrl-C is quiet."""

from __future__ import annotations

import typer
from typer.core import TyperGroup

from relevo.cli.screen import complain
from relevo.errors import BadTarget, RelevoError

WRONG_CALL = 2
INTERRUPTED = 130


class Commands(TyperGroup):
    """The group all commands live in. Groups inside it need nothing of their own: errors pass through to here."""

    def invoke(self, ctx: typer.Context) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            return super().invoke(ctx)
        except RelevoError as error:
            complain(str(error))
            raise typer.Exit(WRONG_CALL if isinstance(error, BadTarget) else 1) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

"""Arguments that the commands of `relevo work` share."""

from __future__ import annotations

from typing import Annotated

import typer

from relevo.errors import BadArgument

Scope = Annotated[str, typer.Argument(help="Slug of the scope.", show_default=False)]
Queue = Annotated[str, typer.Argument(help="Slug of the queue.", show_default=False)]
MessageId = Annotated[str, typer.Argument(help="Id of the message.", show_default=False)]
Token = Annotated[str, typer.Argument(help="The claim's token.", show_default=False)]
ExistOk = Annotated[bool, typer.Option("--exist-ok", help="Do nothing if it exists already.")]
Limit = Annotated[int, typer.Option(help="How many at most.", min=1, max=500)]
Labels = Annotated[list[str] | None, typer.Option("--label", help="name=value; may be repeated.")]


def read_labels(labels: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for label in labels or ():
        name, equals, value = label.partition("=")
        if not equals or not name:
            raise BadArgument(argument="--label", value=label, reason="it has no `=`", remedy="Write name=value.")
        found[name] = value
    return found

"""`relevo work erase` and `relevo work erasures`: erasing what messages say of a person."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from relevo.cli.shell.output import Json, count, moment, show, table
from relevo.cli.shell.prompts import Yes, confirm
from relevo.cli.work.arguments import Limit, Scope
from relevo.cli.work.group import app
from relevo.cli.work.target import target_of

if TYPE_CHECKING:
    from relevo.client import Client, Erasure

_LOOK_EVERY_S = 0.3


@app.command("erase")
def erase(
    ctx: typer.Context,
    scope: Scope,
    subject: Annotated[str, typer.Argument(help="The value of the label `subject`.", show_default=False)],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Erase the content of all messages labelled subject=…: bodies, results, parts, reviews. It cannot be undone."""
    confirm(f"Erase the content of all messages in {scope} labelled subject={subject}, permanently?", yes=yes)

    def erased(client: Client) -> Erasure:
        made = client.erase(scope, subject)
        while made.state == "running":
            time.sleep(_LOOK_EVERY_S)
            made = client.erasure(scope, made.id)
        return made

    made = target_of(ctx).ask(erased)
    show(made, as_json, f"erased the content of {count(made.messages)} messages (erasure {made.id})")


@app.command("erasures")
def list_erasures(ctx: typer.Context, scope: Scope, limit: Limit = 50, as_json: Json = False) -> None:
    """List erasures; whom they were about is not kept."""
    found = target_of(ctx).ask(lambda client: client.erasures(scope, limit=limit)).items
    made = table("erasure", "state", "messages", "by", "asked for", "done", numbers=("messages",))
    for each in found:
        made.add_row(
            each.id,
            each.state,
            count(each.messages),
            each.created_by,
            moment(each.created_at),
            moment(each.finished_at),
        )
    show(found, as_json, made, nothing=f"no erasures in {scope}")

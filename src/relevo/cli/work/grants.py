"""`relevo work grants`: which rights keys were given."""

from __future__ import annotations

from typing import Annotated

import typer

from relevo.cli.shell.output import Json, moment, say, show, table
from relevo.cli.work.arguments import Scope
from relevo.cli.work.group import app
from relevo.cli.work.target import target_of

grants = typer.Typer(help="Grants: what keys may do in a scope or a queue.", no_args_is_help=True)
app.add_typer(grants, name="grants")

KeyId = Annotated[str, typer.Argument(help="Id of the key.", show_default=False)]


@grants.command("list")
def list_grants(
    ctx: typer.Context,
    scope: Scope,
    key: Annotated[str | None, typer.Option(help="Only of this key.")] = None,
    as_json: Json = False,
) -> None:
    """List what was granted in a scope."""
    found = target_of(ctx).ask(lambda client: client.grants(scope, key_id=key, limit=500)).items
    made = table("grant", "key", "queue", "permissions", "by", "made")
    for each in found:
        made.add_row(
            each.id,
            each.key_id,
            each.queue or "all",
            ", ".join(each.permissions),
            each.created_by,
            moment(each.created_at),
        )
    show(found, as_json, made, nothing=f"no grants in {scope}")


@grants.command("give")
def give_grant(
    ctx: typer.Context,
    scope: Scope,
    key_id: KeyId,
    permission: Annotated[list[str], typer.Option("--may", help="view, publish, consume, review or manage.")],
    queue: Annotated[str | None, typer.Option(help="In this queue only.")] = None,
    as_json: Json = False,
) -> None:
    """Give a key permissions in a scope, or in one queue of it."""
    made = target_of(ctx).ask(lambda client: client.grant(scope, key_id, permission, queue=queue))
    show(
        made,
        as_json,
        f"grant {made.id}: {key_id} may {', '.join(made.permissions)} in {scope}{f'/{queue}' if queue else ''}",
    )


@grants.command("take")
def take_grant(
    ctx: typer.Context,
    scope: Scope,
    grant_id: Annotated[str, typer.Argument(help="Id of the grant.", show_default=False)],
) -> None:
    """Revoke a grant."""
    target_of(ctx).ask(lambda client: client.revoke_grant(scope, grant_id))
    say(f"grant {grant_id} revoked")

"""`relevo work keys`: API keys, and the first one of a tenant."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from relevo.cli.database.connection import DEFAULT_DATABASE, DatabaseUrl, ask_database
from relevo.cli.shell.output import Json, hint, moment, show, table
from relevo.cli.shell.prompts import Yes, confirm
from relevo.cli.work.group import app
from relevo.cli.work.target import target_of

if TYPE_CHECKING:
    from relevo.client import NewKey
    from relevo.work.store.database import Database

keys = typer.Typer(help="API keys: list, create, revoke, and the first one of a tenant.", no_args_is_help=True)
app.add_typer(keys, name="keys")


@keys.command("list")
def list_keys(ctx: typer.Context, as_json: Json = False) -> None:
    """List the tenant's keys, without their secrets."""
    found = target_of(ctx).ask(lambda client: client.keys(limit=500)).items
    made = table("key", "name", "may", "scopes", "queues", "ends", "last used")
    for key in found:
        ends = f"revoked {moment(key.revoked_at)}" if key.revoked_at else moment(key.expires_at)
        made.add_row(
            key.id,
            key.name,
            " ".join(key.permissions),
            " ".join(key.scopes or ["all"]),
            " ".join(key.queues or ["all"]),
            ends,
            moment(key.last_used_at),
        )
    show(found, as_json, made, nothing="no keys")


@keys.command("create")
def create_key(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    may: Annotated[
        list[str] | None,
        typer.Option("--may", help="view, publish, consume, review, manage or operate; may be repeated."),
    ] = None,
    scope: Annotated[list[str] | None, typer.Option(help="Only this scope; may be repeated.")] = None,
    queue: Annotated[list[str] | None, typer.Option(help="Only this queue; may be repeated.")] = None,
    expires: Annotated[float | None, typer.Option(help="Days until it ends.", min=0.001, max=36_500)] = None,
    as_json: Json = False,
) -> None:
    """Make a key. It is shown only now."""
    ends = None if expires is None else int((time.time() + expires * 86_400) * 1000)
    permissions = may or ["view", "publish", "consume"]
    made = target_of(ctx).ask(
        lambda client: client.create_key(name, permissions, scopes=scope, queues=queue, expires_at=ends)
    )
    _show_new(made, as_json)


@keys.command("revoke")
def revoke_key(
    ctx: typer.Context, key_id: Annotated[str, typer.Argument()], yes: Yes = False, as_json: Json = False
) -> None:
    """Revoke a key now."""
    confirm(f"Revoke the key {key_id}?", yes=yes)
    made = target_of(ctx).ask(lambda client: client.revoke_key(key_id))
    show(made, as_json, f"{made.id} ({made.name}) is revoked")


@keys.command("first")
def first_key(
    tenant: Annotated[str, typer.Argument(help="Slug of the tenant; created if it does not exist.")],
    database_url: DatabaseUrl = DEFAULT_DATABASE,
    operator: Annotated[bool, typer.Option("--operator", help="It also sees and runs the agents.")] = False,
    as_json: Json = False,
) -> None:
    """Make a tenant and its first key, directly in the database: the first step of a new installation."""
    from relevo.client import NewKey
    from relevo.work.access.api_keys import first_key as make
    from relevo.work.store import schema

    async def first(database: Database) -> NewKey:
        await schema.require_head(database)
        made = await make(database, tenant, lambda: time.time_ns() // 1_000_000, operator=operator)
        return msgspec.convert(msgspec.to_builtins(made), NewKey)

    _show_new(ask_database(database_url, first), as_json)


def _show_new(made: NewKey, as_json: bool) -> None:
    show(made, as_json, made.secret)
    if not as_json:
        hint(f"key {made.key.id} ({made.key.name}); it is shown only now")

"""`relevo work schemas` and `relevo work erase`: what bodies must look like, and making them go away."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relevo.cli.asking import Yes, ask
from relevo.cli.screen import Json, console, count, print_json, say, table
from relevo.cli.work import app
from relevo.cli.work_target import Limit, Queue, Scope, json_file, plain, target_of, when

if TYPE_CHECKING:
    from relevo.client import Client, Erasure

schemas = typer.Typer(help="JSON Schemas: list, show, add, bind to queues, check, delete.", no_args_is_help=True)
app.add_typer(schemas, name="schemas")

SchemaName = Annotated[str, typer.Argument(help="Name of the schema.", show_default=False)]
Version = Annotated[int | None, typer.Option(help="The latest when none is named.", min=1)]

_LOOK_EVERY_S = 0.3


@schemas.command("list")
def list_schemas(ctx: typer.Context, scope: Scope, as_json: Json = False) -> None:
    """List the latest version of each schema."""
    found = target_of(ctx).ask(lambda client: client.schemas(scope))
    if as_json:
        print_json(plain(found))
        return
    made = table("schema", "version", "by", "made", numbers=("version",))
    for each in found:
        made.add_row(each.name, str(each.version), each.created_by, when(each.created_at))
    console().print(made if found else f"no schemas in {scope}")


@schemas.command("show")
def show_schema(ctx: typer.Context, scope: Scope, name: SchemaName, version: Version = None) -> None:
    """Show a schema as JSON."""
    print_json(plain(target_of(ctx).ask(lambda client: client.schema(scope, name, version=version)).definition))


@schemas.command("add")
def add_schema(
    ctx: typer.Context,
    scope: Scope,
    name: SchemaName,
    file: Annotated[Path, typer.Argument(help="A file with JSON Schema; - for stdin.", allow_dash=True)],
    as_json: Json = False,
) -> None:
    """Add a schema, or a new version of it."""
    definition = json_file(file)
    made = target_of(ctx).ask(lambda client: client.add_schema(scope, name, definition))
    if as_json:
        print_json(plain(made))
    else:
        say(f"schema {scope}/{made.name} is there, version {made.version}")


@schemas.command("bind")
def bind_schema(
    ctx: typer.Context,
    scope: Scope,
    queue: Queue,
    name: SchemaName,
    version: Version = None,
    force: Annotated[bool, typer.Option("--force", help="Also when messages that wait do not fit.")] = False,
) -> None:
    """Have bodies of a queue fit a schema from now on."""
    made = target_of(ctx).ask(lambda client: client.bind_schema(scope, queue, name, version=version, force=force))
    say(f"bodies of {scope}/{queue} must fit {made.schema}, version {made.version}")


@schemas.command("unbind")
def unbind_schema(ctx: typer.Context, scope: Scope, queue: Queue) -> None:
    """Take any body from now on."""
    target_of(ctx).ask(lambda client: client.unbind_schema(scope, queue))
    say(f"{scope}/{queue} takes any body")


@schemas.command("check")
def check_schema(
    ctx: typer.Context, scope: Scope, name: SchemaName, queue: Queue, version: Version = None, as_json: Json = False
) -> None:
    """How what waits in a queue fits a schema; ends with 1 when something does not."""
    found = target_of(ctx).ask(lambda client: client.compatibility(scope, name, queue, version=version))
    if as_json:
        print_json(plain(found))
    else:
        say(f"{count(found.looked_at)} looked at, {count(found.refused)} would be refused")
        for example in found.examples:
            say(f"  {example}")
    if found.refused:
        raise typer.Exit(1)


@schemas.command("delete")
def delete_schema(ctx: typer.Context, scope: Scope, name: SchemaName, yes: Yes = False) -> None:
    """Delete all versions of a schema."""
    if not yes:
        ask(f"Delete the schema {name} of {scope}?")
    target_of(ctx).ask(lambda client: client.delete_schema(scope, name))
    say(f"schema {scope}/{name} is gone")


@app.command("erase")
def erase(
    ctx: typer.Context,
    scope: Scope,
    subject: Annotated[str, typer.Argument(help="The value of the label `subject`.", show_default=False)],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Erase what all messages labelled subject=… say: bodies, results, parts, reviews. It cannot be undone."""
    if not yes:
        ask(f"Erase what messages of {scope} labelled subject={subject} say, for good?")

    def erased(client: Client) -> Erasure:
        made = client.erase(scope, subject)
        while made.state == "running":
            time.sleep(_LOOK_EVERY_S)
            made = client.erasure(scope, made.id)
        return made

    made = target_of(ctx).ask(erased)
    if as_json:
        print_json(plain(made))
    else:
        say(f"erased what {count(made.messages)} messages said (erasure {made.id})")


@app.command("erasures")
def list_erasures(ctx: typer.Context, scope: Scope, limit: Limit = 50, as_json: Json = False) -> None:
    """List erasures; whom they were about is not known any more."""
    found = target_of(ctx).ask(lambda client: client.erasures(scope, limit=limit)).items
    if as_json:
        print_json(plain(found))
        return
    made = table("erasure", "state", "messages", "by", "asked for", "done", numbers=("messages",))
    for each in found:
        made.add_row(
            each.id, each.state, count(each.messages), each.created_by, when(each.created_at), when(each.finished_at)
        )
    console().print(made if found else f"no erasures in {scope}")

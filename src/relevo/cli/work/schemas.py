"""`relevo work schemas`: what bodies must look like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relevo.cli.shell.json_text import read_json_file
from relevo.cli.shell.output import Json, count, moment, print_json, say, show, table
from relevo.cli.shell.prompts import Yes, confirm
from relevo.cli.work.arguments import Queue, Scope
from relevo.cli.work.group import app
from relevo.cli.work.target import target_of

schemas = typer.Typer(help="JSON Schemas: list, show, add, bind to queues, check, delete.", no_args_is_help=True)
app.add_typer(schemas, name="schemas")

SchemaName = Annotated[str, typer.Argument(help="Name of the schema.", show_default=False)]
Version = Annotated[int | None, typer.Option(help="The version; the latest by default.", min=1)]


@schemas.command("list")
def list_schemas(ctx: typer.Context, scope: Scope, as_json: Json = False) -> None:
    """List the latest version of each schema."""
    found = target_of(ctx).ask(lambda client: client.schemas(scope, limit=500)).items
    made = table("schema", "version", "by", "made", numbers=("version",))
    for each in found:
        made.add_row(each.name, str(each.version), each.created_by, moment(each.created_at))
    show(found, as_json, made, nothing=f"no schemas in {scope}")


@schemas.command("show")
def show_schema(ctx: typer.Context, scope: Scope, name: SchemaName, version: Version = None) -> None:
    """Show a schema as JSON."""
    print_json(target_of(ctx).ask(lambda client: client.schema(scope, name, version=version)).definition)


@schemas.command("add")
def add_schema(
    ctx: typer.Context,
    scope: Scope,
    name: SchemaName,
    file: Annotated[Path, typer.Argument(help="A file with JSON Schema; - for stdin.", allow_dash=True)],
    as_json: Json = False,
) -> None:
    """Add a schema, or a new version of it."""
    definition = read_json_file(file)
    made = target_of(ctx).ask(lambda client: client.add_schema(scope, name, definition))
    show(made, as_json, f"schema {scope}/{made.name} saved as version {made.version}")


@schemas.command("bind")
def bind_schema(
    ctx: typer.Context,
    scope: Scope,
    queue: Queue,
    name: SchemaName,
    version: Version = None,
    force: Annotated[bool, typer.Option("--force", help="Also when waiting messages do not match.")] = False,
) -> None:
    """Require bodies of a queue to match a schema from now on."""
    made = target_of(ctx).ask(lambda client: client.bind_schema(scope, queue, name, version=version, force=force))
    say(f"bodies of {scope}/{queue} must match {made.schema}, version {made.version}")


@schemas.command("unbind")
def unbind_schema(ctx: typer.Context, scope: Scope, queue: Queue) -> None:
    """Accept any body from now on."""
    target_of(ctx).ask(lambda client: client.unbind_schema(scope, queue))
    say(f"{scope}/{queue} accepts any body")


@schemas.command("check")
def check_schema(
    ctx: typer.Context, scope: Scope, name: SchemaName, queue: Queue, version: Version = None, as_json: Json = False
) -> None:
    """Check waiting messages of a queue against a schema; exit code 1 when one does not match."""
    found = target_of(ctx).ask(lambda client: client.compatibility(scope, name, queue, version=version))
    looked_at = f"checked {count(found.looked_at)} messages, {count(found.refused)} would be refused"
    show(found, as_json, looked_at, *(f"  {example}" for example in found.examples))
    if found.refused:
        raise typer.Exit(1)


@schemas.command("delete")
def delete_schema(ctx: typer.Context, scope: Scope, name: SchemaName, yes: Yes = False) -> None:
    """Delete all versions of a schema."""
    confirm(f"Delete the schema {name} of {scope}?", yes=yes)
    target_of(ctx).ask(lambda client: client.delete_schema(scope, name))
    say(f"schema {scope}/{name} deleted")

"""`relevo work webhooks`: who is told of events."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from relevo.cli.shell.output import Json, moment, say, show, table
from relevo.cli.shell.prompts import Yes, confirm
from relevo.cli.work.arguments import Limit, Scope
from relevo.cli.work.group import app
from relevo.cli.work.target import target_of

webhooks = typer.Typer(help="Webhooks: list, create, switch, rotate, log, redeliver.", no_args_is_help=True)
app.add_typer(webhooks, name="webhooks")

WebhookId = Annotated[str, typer.Argument(help="Id of the webhook.", show_default=False)]


@webhooks.command("list")
def list_webhooks(ctx: typer.Context, scope: Scope, as_json: Json = False) -> None:
    """List webhooks, without their secrets."""
    found = target_of(ctx).ask(lambda client: client.webhooks(scope, limit=500)).items
    made = table("webhook", "url", "events", "state", "failures in a row", numbers=("failures in a row",))
    for each in found:
        state = each.state if each.disabled_reason is None else f"{each.state}: {each.disabled_reason}"
        made.add_row(each.id, each.url, ", ".join(each.events) or "all", state, str(each.failures_in_a_row))
    show(found, as_json, made, nothing=f"no webhooks in {scope}")


@webhooks.command("create")
def create_webhook(
    ctx: typer.Context,
    scope: Scope,
    url: Annotated[str, typer.Argument(help="Where to send events.", show_default=False)],
    event: Annotated[list[str] | None, typer.Option("--event", help="Only this one; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Make a webhook. Its secret is shown only now."""
    made = target_of(ctx).ask(lambda client: client.create_webhook(scope, url, events=event or ()))
    _secret(made, as_json)


@webhooks.command("rotate")
def rotate_webhook(
    ctx: typer.Context,
    scope: Scope,
    webhook_id: WebhookId,
    overlap: Annotated[int, typer.Option(help="Seconds both secrets sign.", min=0)] = 86_400,
    as_json: Json = False,
) -> None:
    """Make a new secret; the old one stays valid for a while."""
    _secret(target_of(ctx).ask(lambda client: client.rotate_webhook(scope, webhook_id, overlap_s=overlap)), as_json)


@webhooks.command("switch")
def switch_webhook(
    ctx: typer.Context,
    scope: Scope,
    webhook_id: WebhookId,
    state: Annotated[str, typer.Argument(help="active or disabled.", show_default=False)],
) -> None:
    """Disable a webhook, or enable it again."""
    made = target_of(ctx).ask(lambda client: client.change_webhook(scope, webhook_id, state=state))
    say(f"webhook {made.id} is {made.state}")


@webhooks.command("delete")
def delete_webhook(ctx: typer.Context, scope: Scope, webhook_id: WebhookId, yes: Yes = False) -> None:
    """Delete a webhook and its log."""
    confirm(f"Delete the webhook {webhook_id} of {scope}?", yes=yes)
    target_of(ctx).ask(lambda client: client.delete_webhook(scope, webhook_id))
    say(f"webhook {webhook_id} deleted")


@webhooks.command("log")
def show_log(
    ctx: typer.Context,
    scope: Scope,
    webhook_id: WebhookId,
    state: Annotated[str | None, typer.Option(help="waiting, delivered or failed.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Show the deliveries of a webhook, and how they went."""
    found = target_of(ctx).ask(lambda client: client.deliveries(scope, webhook_id, state=state, limit=limit)).items
    made = table("delivery", "event", "message", "state", "attempts", "answer", "next", numbers=("attempts",))
    for each in found:
        answer = str(each.last_status) if each.last_status else each.last_error or "-"
        made.add_row(each.id, each.event, each.message_id, each.state, str(each.attempts), answer, moment(each.next_at))
    show(found, as_json, made, nothing="no deliveries yet")


@webhooks.command("redeliver")
def redeliver(
    ctx: typer.Context,
    scope: Scope,
    webhook_id: WebhookId,
    delivery_id: Annotated[str, typer.Argument(help="Id of the delivery.", show_default=False)],
) -> None:
    """Send a delivery again."""
    made = target_of(ctx).ask(lambda client: client.redeliver(scope, webhook_id, delivery_id))
    say(f"sending {made.event} of {made.message_id} again")


def _secret(made: Any, as_json: bool) -> None:
    sends = f"webhook {made.webhook.id} sends to {made.webhook.url}"
    show(made, as_json, sends, f"its secret, shown only now: {made.secret}")

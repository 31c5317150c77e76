"""`relevo work`: what happens to messages: publish, claim, settle, look for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relevo.cli.shell.json_text import read_json
from relevo.cli.shell.output import Json, count, cut, moment, one_line, readable, show, table
from relevo.cli.shell.prompts import Yes, confirm
from relevo.cli.work.arguments import Labels, Limit, MessageId, Queue, Scope, Token, read_labels
from relevo.cli.work.group import app
from relevo.cli.work.target import Target, target_of
from relevo.errors import BadArgument

if TYPE_CHECKING:
    from relevo.client import Claimed, Client


@app.command()
def publish(
    ctx: typer.Context,
    scope: Scope,
    queue: Queue,
    body: Annotated[str | None, typer.Argument(help="JSON; without it one message for each line of stdin.")] = None,
    message_type: Annotated[str | None, typer.Option("--type", help="What kind of message it is.")] = None,
    tier: Annotated[str | None, typer.Option(help="background, low, normal, high or critical.")] = None,
    delay: Annotated[float | None, typer.Option(help="Seconds until it can be claimed.", min=0)] = None,
    idempotency_key: Annotated[str | None, typer.Option("--once", help="The same key publishes once.")] = None,
    label: Labels = None,
    as_json: Json = False,
) -> None:
    """Publish a message, or one for each line of stdin."""
    given = {"message_type": message_type, "priority_tier": tier, "delay_s": delay}
    fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if label:
        fields["labels"] = read_labels(label)
    if body is not None:
        if idempotency_key is not None:
            fields["idempotency_key"] = idempotency_key
        content = read_json(body, "BODY")
        made = target_of(ctx).ask(lambda client: client.publish(scope, queue, content, **fields))
        show(made, as_json, f"{made.id} {'was already published' if made.duplicate else made.state}")
        return
    if idempotency_key is not None:
        remedy = "Pass one BODY, or leave --once out."
        raise BadArgument(argument="--once", value=idempotency_key, reason="it is for one message", remedy=remedy)
    _publish_lines(target_of(ctx), scope, queue, fields, as_json)


def _publish_lines(target: Target, scope: str, queue: str, fields: dict[str, Any], as_json: bool) -> None:
    lines = [line for line in sys.stdin if line.strip()]
    messages = [{"body": read_json(line, f"line {number}"), **fields} for number, line in enumerate(lines, 1)]

    def send(client: Client) -> list[Any]:
        outcomes: list[Any] = []
        for at in range(0, len(messages), 500):
            outcomes += client.publish_batch(scope, queue, messages[at : at + 500])
        return outcomes

    outcomes = target.ask(send)
    refused = [outcome.refusal for outcome in outcomes if outcome.refusal is not None]
    published = f"{count(len(outcomes) - len(refused))} published" + (f", {len(refused)} refused" if refused else "")
    show(outcomes, as_json, published, *(f"  {refusal.code}: {refusal.detail}" for refusal in refused[:10]))
    if refused:
        raise typer.Exit(1)


@app.command()
def claim(
    ctx: typer.Context,
    scope: Scope,
    queue: Queue,
    batch_size: Annotated[int, typer.Option("--count", help="How many at most.", min=1, max=1000)] = 1,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the first.", min=0, max=60)] = 0.0,
    subscription: Annotated[str | None, typer.Option(help="The subscription, for a broadcast queue.")] = None,
    label: Labels = None,
    as_json: Json = False,
) -> None:
    """Claim the next messages. Settle or `extend` them before the claim expires."""
    found = target_of(ctx).ask(
        lambda client: client.claim(
            scope,
            queue,
            batch_size=batch_size,
            wait_s=wait,
            subscription=subscription,
            labels=read_labels(label) or None,
            consumer="relevo work claim",
        )
    )
    made = table("message", "token", "until", "attempt", "type", "body")
    for message in found:
        made.add_row(
            message.id,
            message.claim_token,
            moment(message.claim_until),
            str(message.attempts),
            message.message_type,
            one_line(message.body, 60),
        )
    show(found, as_json, made, nothing="nothing to claim")


@app.command()
def complete(
    ctx: typer.Context,
    scope: Scope,
    message_id: MessageId,
    token: Token,
    result: Annotated[str | None, typer.Argument(help="JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Complete a claimed message."""
    value = None if result is None else read_json(result, "RESULT")
    made = target_of(ctx).ask(lambda client: client.complete(scope, _claimed(message_id, token), value))
    show(made, as_json, f"{made.id} is {made.state}")


@app.command()
def fail(
    ctx: typer.Context,
    scope: Scope,
    message_id: MessageId,
    token: Token,
    reason: Annotated[str | None, typer.Argument(help="Why, in your own words.")] = None,
    error_type: Annotated[str | None, typer.Option(help="Type of the error, such as KeyError.")] = None,
    message: Annotated[str | None, typer.Option(help="Message of the error.")] = None,
    stack_file: Annotated[
        typer.FileText | None, typer.Option(help="File with the stack of the error; - for standard input.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="Do not try again.")] = False,
    as_json: Json = False,
) -> None:
    """Give a claimed message back as failed: with a reason, with the error, or with both."""
    stack = None if stack_file is None else stack_file.read()
    given = {"type": error_type, "message": message, "stack": stack}
    error = {name: text for name, text in given.items() if text} or None
    if error is not None and error.keys() == {"stack"}:
        error["message"] = reason or "failed"
    if reason is None and error is None:
        remedy = "Pass a REASON, or --error-type and --message."
        raise BadArgument(argument="REASON", value=reason, reason="a failure needs a reason", remedy=remedy)
    made = target_of(ctx).ask(
        lambda client: client.fail(scope, _claimed(message_id, token), reason, error=error, dead=dead)
    )
    show(made, as_json, f"{made.id} is {made.state}")


@app.command()
def release(ctx: typer.Context, scope: Scope, message_id: MessageId, token: Token, as_json: Json = False) -> None:
    """Give a claimed message back untouched."""
    made = target_of(ctx).ask(lambda client: client.release(scope, _claimed(message_id, token)))
    show(made, as_json, f"{made.id} is {made.state}")


@app.command()
def extend(
    ctx: typer.Context,
    scope: Scope,
    message_id: MessageId,
    token: Token,
    seconds: Annotated[int, typer.Argument(help="Seconds from now.", min=1, max=43_200)],
    as_json: Json = False,
) -> None:
    """Keep a claimed message for longer."""
    made = target_of(ctx).ask(lambda client: client.extend(scope, _claimed(message_id, token), seconds))
    show(made, as_json, f"{made.id} is {made.state} until {moment(made.claim_until)}")


@app.command()
def search(
    ctx: typer.Context,
    scope: Scope,
    queue: Annotated[str | None, typer.Option(help="Only of this queue.")] = None,
    state: Annotated[str | None, typer.Option(help="Only in this state.")] = None,
    message_type: Annotated[str | None, typer.Option("--type")] = None,
    correlation_id: Annotated[str | None, typer.Option("--correlation")] = None,
    label: Labels = None,
    since: Annotated[str | None, typer.Option(help="RFC 3339.")] = None,
    until: Annotated[str | None, typer.Option(help="RFC 3339.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Search messages, archived ones too, the newest first."""
    found = (
        target_of(ctx)
        .ask(
            lambda client: client.search(
                scope,
                queue=queue,
                state=state,
                message_type=message_type,
                correlation_id=correlation_id,
                labels=read_labels(label) or None,
                since=since,
                until=until,
                limit=limit,
            )
        )
        .items
    )
    made = table("message", "queue", "state", "type", "made", "body")
    for message in found:
        state_shown = f"{message.state} (archived)" if message.archived_at else message.state
        made.add_row(
            message.id,
            message.queue,
            state_shown,
            message.message_type,
            moment(message.created_at),
            one_line(message.body, 60),
        )
    show(found, as_json, made, nothing=f"no such messages in {scope}")


@app.command("show")
def show_message(ctx: typer.Context, scope: Scope, message_id: MessageId, as_json: Json = False) -> None:
    """Show one message."""
    message = target_of(ctx).ask(lambda client: client.message(scope, message_id))
    made = table("", "", title=message.id)
    for name, value in readable(message).items():
        if value is not None and name != "error":
            made.add_row(
                name,
                moment(value) if name.endswith("_at") else value if isinstance(value, str) else one_line(value, 200),
            )
    if message.error is not None:
        made.add_row("error", ": ".join(filter(None, (message.error.type, message.error.message))))
    stack = None if message.error is None or message.error.stack is None else message.error.stack.rstrip()
    show(message, as_json, made, stack)


@app.command()
def history(ctx: typer.Context, scope: Scope, message_id: MessageId, as_json: Json = False) -> None:
    """Show what happened to a message."""
    steps = target_of(ctx).ask(lambda client: client.history(scope, message_id, limit=500)).items
    made = table("at", "event", "by", "detail")
    for step in steps:
        detail = (
            step.detail if isinstance(step.detail, str) else "-" if step.detail is None else one_line(step.detail, 60)
        )
        made.add_row(moment(step.at), step.event, step.actor or "-", cut(detail, 300))
    show(steps, as_json, made, nothing="no history yet")


@app.command()
def cancel(
    ctx: typer.Context,
    scope: Scope,
    message_id: MessageId,
    reason: Annotated[str | None, typer.Option()] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Cancel a message that is not claimed."""
    confirm(f"Cancel {message_id}?", yes=yes)
    made = target_of(ctx).ask(lambda client: client.cancel(scope, message_id, reason=reason))
    show(made, as_json, f"{made.id} is {made.state}")


def _claimed(message_id: str, token: str) -> Claimed:
    """As much of a claim as settling needs."""
    from relevo.client import Claimed

    return Claimed(
        id=message_id,
        claim_token=token,
        queue="",
        claim_until=0,
        attempts=0,
        reclaims=0,
        message_type="",
        priority_tier="",
        priority_score=0,
        labels={},
        content_type="",
        body=None,
        correlation_id="",
        causation_id=None,
        parent_id=None,
        deadline=None,
        created_at=0,
    )

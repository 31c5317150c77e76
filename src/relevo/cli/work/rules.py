"""`relevo work rules`: routing rules of a scope, their state, and trying one out first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from relevo.cli.shell.json_text import read_json, read_json_file
from relevo.cli.shell.output import Json, count, one_line, print_json, readable, say, show, table
from relevo.cli.shell.prompts import Yes, confirm
from relevo.cli.work.arguments import Labels, Scope, read_labels
from relevo.cli.work.group import app
from relevo.cli.work.target import target_of

rules = typer.Typer(help="Routing rules: list, set, try out, enable, reset, delete.", no_args_is_help=True)
app.add_typer(rules, name="rules")

RuleName = Annotated[str, typer.Argument(help="Name of the rule.", show_default=False)]
RuleFile = Annotated[
    Path, typer.Argument(help="A file with the rule as JSON; - for stdin.", allow_dash=True, show_default=False)
]


@rules.command("list")
def list_rules(ctx: typer.Context, scope: Scope, as_json: Json = False) -> None:
    """List rules in the order in which they are evaluated."""
    found = target_of(ctx).ask(lambda client: client.rules(scope, limit=500)).items
    numbers = ("position", "matched", "failed")
    made = table(
        "rule", "position", "trigger", "queue", "condition", "does", "state", "matched", "failed", numbers=numbers
    )
    for each in found:
        rule = each.rule
        state = "off" if not rule.enabled else "on" if each.breaker == "closed" else f"breaker {each.breaker}"
        made.add_row(
            rule.name,
            str(rule.position),
            rule.trigger,
            rule.queue or "-",
            rule.condition,
            _does(rule.actions),
            state,
            count(each.matched),
            count(each.failed),
        )
    show(found, as_json, made, nothing=f"no rules in {scope}")


@rules.command("show")
def show_rule(ctx: typer.Context, scope: Scope, name: RuleName, as_json: Json = False) -> None:
    """Show a rule as JSON, with its breaker and counts."""
    found = target_of(ctx).ask(lambda client: client.rule(scope, name))
    print_json(found if as_json else found.rule)
    if not as_json:
        say(f"breaker {found.breaker}; matched {count(found.matched)}, failed {count(found.failed)}")
        if found.last_error:
            say(f"last error: {found.last_error}")


@rules.command("set")
def set_rule(ctx: typer.Context, scope: Scope, file: RuleFile, as_json: Json = False) -> None:
    """Make a rule, or replace the one of the same name."""
    wanted = read_json_file(file)
    known = {each.rule.name for each in target_of(ctx).ask(lambda client: client.rules(scope, limit=500)).items}
    if wanted.get("name") in known:
        made = target_of(ctx).ask(lambda client: client.change_rule(scope, wanted))
    else:
        made = target_of(ctx).ask(lambda client: client.create_rule(scope, wanted))
    show(made, as_json, f"rule {scope}/{made.rule.name} saved, {'enabled' if made.rule.enabled else 'disabled'}")


@rules.command("try")
def try_rule(
    ctx: typer.Context,
    scope: Scope,
    file: RuleFile,
    queue: Annotated[str, typer.Argument(help="The queue of the messages.", show_default=False)],
    body: Annotated[str | None, typer.Option(help="Try it on this JSON.")] = None,
    last: Annotated[int | None, typer.Option(help="Try it on the last messages of the queue.", min=1, max=500)] = None,
    label: Labels = None,
    as_json: Json = False,
) -> None:
    """Show what a rule would do. Nothing is changed."""
    wanted = read_json_file(file)
    options: dict[str, Any] = {"labels": read_labels(label) or None}
    if body is not None:
        options["body"] = read_json(body, "--body")
    else:
        options["last"] = last or 100
    found = target_of(ctx).ask(lambda client: client.try_rule(scope, wanted, queue, **options))
    made = table("message", "matches", "would", "body after")
    for each in found:
        would = each.error or " ".join(filter(None, (each.ending, each.to, "and a review" if each.review else "")))
        made.add_row(each.message_id or "-", "yes" if each.matches else "no", would or "-", one_line(each.body, 60))
    show(found, as_json, made, nothing=f"no messages in {scope}/{queue}")


@rules.command("enable")
def enable_rule(ctx: typer.Context, scope: Scope, name: RuleName) -> None:
    """Enable a rule."""
    _switch(ctx, scope, name, on=True)


@rules.command("disable")
def disable_rule(ctx: typer.Context, scope: Scope, name: RuleName) -> None:
    """Disable a rule, and keep it."""
    _switch(ctx, scope, name, on=False)


@rules.command("reset")
def reset_rule(ctx: typer.Context, scope: Scope, name: RuleName) -> None:
    """Close the breaker of a rule, so that it is evaluated again."""
    made = target_of(ctx).ask(lambda client: client.reset_rule(scope, name))
    say(f"the breaker of {scope}/{name} is {made.breaker}")


@rules.command("delete")
def delete_rule(ctx: typer.Context, scope: Scope, name: RuleName, yes: Yes = False) -> None:
    """Delete a rule."""
    confirm(f"Delete the rule {name} of {scope}?", yes=yes)
    target_of(ctx).ask(lambda client: client.delete_rule(scope, name))
    say(f"rule {scope}/{name} deleted")


def _switch(ctx: typer.Context, scope: str, name: str, *, on: bool) -> None:
    found = target_of(ctx).ask(lambda client: client.rule(scope, name)).rule
    wanted = {**readable(found), "enabled": on}
    target_of(ctx).ask(lambda client: client.change_rule(scope, wanted))
    say(f"rule {scope}/{name} {'enabled' if on else 'disabled'}")


def _does(actions: list[dict[str, Any]]) -> str:
    told: list[str] = []
    for action in actions:
        to = action.get("stream_queue") or action.get("queue")
        told.append(f"{action['action']} to {to}" if to else str(action["action"]))
    return ", ".join(told)

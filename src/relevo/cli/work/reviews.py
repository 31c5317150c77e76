"""`relevo work reviews`: what waits for people, from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from relevo.cli.shell.json_text import read_json
from relevo.cli.shell.output import Json, moment, one_line, say, show, table
from relevo.cli.work.arguments import Limit, MessageId, Scope
from relevo.cli.work.group import app
from relevo.cli.work.target import target_of

if TYPE_CHECKING:
    from relevo.client import Review

reviews = typer.Typer(help="Reviews: list, show, claim, release, hand over, comment, decide.", no_args_is_help=True)
app.add_typer(reviews, name="reviews")

ReviewId = Annotated[str, typer.Argument(help="Id of the review.", show_default=False)]
Person = Annotated[str | None, typer.Option("--as", help="For whom; with a key that acts for people.")]
Asked = Annotated[
    str | None, typer.Option("--review", help="What to ask, as JSON: a specification, or a pattern and its parameters.")
]


@reviews.command("list")
def list_reviews(
    ctx: typer.Context,
    scope: Scope,
    state: Annotated[str | None, typer.Option(help="waiting, held, decided, failed or withdrawn.")] = None,
    person: Annotated[str | None, typer.Option("--for", help="Only what this person may decide or holds.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List reviews, the oldest first."""
    found = target_of(ctx).ask(lambda client: client.reviews(scope, state=state, person=person, limit=limit)).items
    made = table("review", "queue", "title", "state", "held by", "due", "since")
    for each in found:
        made.add_row(
            each.id,
            each.queue or "-",
            each.title,
            each.state,
            each.holder or "-",
            moment(each.due_at),
            moment(each.created_at),
        )
    show(found, as_json, made, nothing=f"no reviews in {scope}")


@reviews.command("show")
def show_review(ctx: typer.Context, scope: Scope, review_id: ReviewId, as_json: Json = False) -> None:
    """Show a review: what is asked, and what happened so far."""
    found = target_of(ctx).ask(lambda client: client.review(scope, review_id))
    show(found, as_json, *_parts(found))


def _parts(review: Review) -> Iterator[RenderableType]:
    """A review for people: what is asked, what happened so far, what came of it."""
    held = f", held by {review.holder}" if review.holder else ""
    yield Text(f"{review.title} ({review.state}{held})", "bold")
    for section in review.spec.get("context", []):
        yield f"\n{section['title']}\n{section['content']}"
    options = " | ".join(option["value"] for option in review.spec["decision"]["options"])
    yield f"\n{review.spec['decision']['field']}: {options}"
    for each in review.spec.get("input", []):
        yield f"{each['field']}: {each['kind']}{', needed' if each['required'] else ''}"
    if review.notes:
        made = table("at", "who", "did", "")
        for note in review.notes:
            made.add_row(moment(note.at), note.person or "-", note.did, note.text or "")
        yield made
    if review.outcome is not None:
        yield f"outcome: {one_line(review.outcome, 200)}"


@reviews.command("send")
def send_to_review(
    ctx: typer.Context, scope: Scope, message_id: MessageId, review: Asked = None, as_json: Json = False
) -> None:
    """Send a dead letter to review; if approved, it goes back to its queue."""
    asked = None if review is None else read_json(review, "--review")
    _stands(target_of(ctx).ask(lambda client: client.review_dead_letter(scope, message_id, asked)), as_json)


@reviews.command("watch")
def watch_stream(
    ctx: typer.Context,
    scope: Scope,
    stream_queue: Annotated[str, typer.Argument(help="Name of the stream queue.", show_default=False)],
    review: Asked = None,
    off: Annotated[bool, typer.Option("--off", help="Stop sending them.")] = False,
) -> None:
    """Send the dead letters of a stream queue to review from now on."""
    asked = None if review is None else read_json(review, "--review")
    if off:
        target_of(ctx).ask(lambda client: client.unwatch_stream(scope, stream_queue))
    else:
        target_of(ctx).ask(lambda client: client.watch_stream(scope, stream_queue, asked))
    say(f"dead letters of {stream_queue} {'no longer go to review' if off else f'go to review in {scope}'}")


@reviews.command("claim")
def claim_review(
    ctx: typer.Context, scope: Scope, review_id: ReviewId, person: Person = None, as_json: Json = False
) -> None:
    """Claim a review; claim it again to hold it for longer."""
    _stands(target_of(ctx).ask(lambda client: client.claim_review(scope, review_id, person=person)), as_json)


@reviews.command("release")
def release_review(
    ctx: typer.Context, scope: Scope, review_id: ReviewId, person: Person = None, as_json: Json = False
) -> None:
    """Release a review that you hold."""
    _stands(target_of(ctx).ask(lambda client: client.release_review(scope, review_id, person=person)), as_json)


@reviews.command("hand-over")
def hand_over_review(
    ctx: typer.Context,
    scope: Scope,
    review_id: ReviewId,
    to: Annotated[str, typer.Argument(help="Who takes it over.", show_default=False)],
    person: Person = None,
    as_json: Json = False,
) -> None:
    """Hand a review that you hold over to someone else."""
    _stands(target_of(ctx).ask(lambda client: client.hand_over_review(scope, review_id, to, person=person)), as_json)


@reviews.command("comment")
def comment_review(
    ctx: typer.Context,
    scope: Scope,
    review_id: ReviewId,
    text: Annotated[str, typer.Argument(help="The comment.", show_default=False)],
    person: Person = None,
    as_json: Json = False,
) -> None:
    """Comment on a review."""
    _stands(target_of(ctx).ask(lambda client: client.comment_review(scope, review_id, text, person=person)), as_json)


@reviews.command("decide")
def decide_review(
    ctx: typer.Context,
    scope: Scope,
    review_id: ReviewId,
    decision: Annotated[str, typer.Argument(help="The option you choose, such as approve.", show_default=False)],
    field: Annotated[list[str] | None, typer.Option("--field", help="name=JSON; may be repeated.")] = None,
    body: Annotated[str | None, typer.Option(help="The body as it should have been, as JSON.")] = None,
    comment: Annotated[str | None, typer.Option(help="A comment to go with the decision.")] = None,
    person: Person = None,
    as_json: Json = False,
) -> None:
    """Decide a review."""
    target = target_of(ctx)
    asked = target.ask(lambda client: client.review(scope, review_id)).spec["decision"]["field"]
    answer: dict[str, Any] = {asked: decision}
    for given in field or ():
        name, _, value = given.partition("=")
        answer[name] = read_json(value, f"--field {name}")
    if comment:
        answer["comment"] = comment
    more: dict[str, Any] = {} if body is None else {"corrected_body": read_json(body, "--body")}
    _stands(target.ask(lambda client: client.decide_review(scope, review_id, answer, person=person, **more)), as_json)


def _stands(review: Any, as_json: bool) -> None:
    held = f", held by {review.holder}" if review.holder else ""
    show(review, as_json, f"review {review.id} is {review.state}{held}")

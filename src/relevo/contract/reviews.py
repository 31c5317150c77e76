"""Reviews: decisions that people make about messages. What a specification may hold is checked in `relevo.work.review`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw

from relevo.contract.fields import CreatedAt, CreatedBy, Prose, RequestBody, VersionNumber, Word, about, one_of

CaseState = Literal["waiting", "held", "decided", "failed", "withdrawn"]
Source = Literal["message", "dead_letter", "stream_dead_letter"]

_StreamName = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[\x21-\x7a|~]*$")]
_STREAM = about("The stream queue.")
_REVIEW = about("What people are asked: a specification, or a pattern's name, version and parameters.")


class Vote(msgspec.Struct, frozen=True):
    """One person's answer."""

    person: Annotated[str, about("Who.")]
    at: Annotated[int, about("When.")]
    answer: Annotated[dict[str, Any], about("The decision and the fields that go with it.")]
    corrected_body: Annotated[Any, about("The body as it should have been; null for as it is.")] = None


class Note(msgspec.Struct, frozen=True):
    """A line of a review's history."""

    at: Annotated[int, about("When.")]
    person: Annotated[str, about("Who.")]
    did: Annotated[str, about("What: claimed, released, handed over, commented, reminded, escalated …")]
    text: Annotated[str, about("What was said.")] = ""


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A review as people see it."""

    id: Annotated[str, about("The id of the review.")]
    scope: Annotated[str, about("Its scope.")]
    queue: Annotated[str | None, about("The queue of its message.")]
    message_id: Annotated[str | None, about("The message that waits for it; null for a job of a stream queue.")]
    source: Annotated[str, one_of(Source), about("What it is about.")]
    correlation_id: Annotated[str, about("What it belongs to.")]
    title: Annotated[str, about("Its title, filled in.")]
    state: Annotated[str, one_of(CaseState), about("Whether it waits, is held by somebody, or is over, and how.")]
    spec: Annotated[Any, about("What people are asked.")]
    assignees: Annotated[list[str], about("Who may decide now; empty for everyone with the permission to review.")]
    holder: Annotated[str | None, about("Who holds it.")]
    held_until: Annotated[int | None, about("Until when they hold it without a sign of life.")]
    due_at: Annotated[int | None, about("When its time is over.")]
    votes: Annotated[list[Vote], about("What was answered so far.")]
    notes: Annotated[list[Note], about("What happened to it.")]
    outcome: Annotated[dict[str, Any] | None, about("The answer that counts; null while there is none.")]
    reason: Annotated[str | None, about("Why it ended without an answer.")]
    created_at: CreatedAt
    finished_at: Annotated[int | None, about("When it was over.")]


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a review's specification under a name. Versions never change."""

    name: Annotated[str, about("Its name.")]
    version: Annotated[int, about("Its version: 1, 2, 3 …")]
    spec: Annotated[Any, about("The specification, with `{{parameter}}` where something is filled in.")]
    parameters: Annotated[list[str], about("What a use of it has to give.")]
    created_by: CreatedBy
    created_at: CreatedAt


class StreamWatch(msgspec.Struct, frozen=True, kw_only=True):
    """Every new dead letter of `stream_queue` becomes a review of the scope."""

    stream_queue: Annotated[str, _STREAM]
    review: Annotated[Any, about("What people are asked; null for the usual questions.")]
    created_by: CreatedBy
    created_at: CreatedAt


# --- what people do ------------------------------------------------------------------------------------------------------


class DecisionIn(RequestBody):
    """The answer to a review."""

    answer: Annotated[dict[str, Any], about("The decision and the fields that go with it.")]
    corrected_body: Annotated[Raw, about("The body as it should have been, if that may be changed.")] = msgspec.field(
        default_factory=Raw
    )


class HandOverIn(RequestBody):
    """To whom a review is handed."""

    to: Annotated[Word, about("The name of the person.")]


class CommentIn(RequestBody):
    """Something to say about a review."""

    text: Annotated[str, Meta(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$"), about("What is to be said.")]


class WithdrawIn(RequestBody):
    """Why nobody needs the answer any more."""

    reason: Annotated[Prose, about("For its history.")] = "withdrawn"


class SendIn(RequestBody):
    """What people are asked about a dead letter; the usual questions when it is left out."""

    review: Annotated[Raw, _REVIEW] = msgspec.field(default_factory=Raw)


class StreamLetterIn(SendIn, kw_only=True):
    """A dead letter of a stream queue, for people to look at."""

    stream_queue: Annotated[_StreamName, _STREAM]
    entry_id: Annotated[
        str, Meta(pattern=r"^[0-9]{1,20}-[0-9]{1,19}$"), about("The id of the dead letter in its stream.")
    ]


class WatchIn(SendIn, kw_only=True):
    """A stream queue whose dead letters go to review by themselves."""

    stream_queue: Annotated[_StreamName, _STREAM]


class PreviewIn(RequestBody):
    """What to fill a pattern in with."""

    version: Annotated[VersionNumber | None, about("Which version; null for the latest.")] = None
    parameters: Annotated[dict[str, Any], about("A value for each parameter.")] = msgspec.field(
        default_factory=dict[str, Any]
    )
    body: Annotated[Raw, about("The body of the message that it would be about.")] = msgspec.field(default_factory=Raw)

"""What a publisher hands in becomes rows: checked, given an id, a place in the order, and the times it lives by."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import msgspec

from relevo.contract.messages import NewMessage, Refusal
from relevo.errors import InvalidInput
from relevo.wire.ids import IdMint, minted_ms
from relevo.work.caller import Caller
from relevo.work.message.model import TIERS
from relevo.work.message.ordering import sort_key
from relevo.work.queue_record import QueueRecord
from relevo.work.store.interface import PlainRows, Row
from relevo.work.store.tables import DUE

COLUMNS = (
    *("id", "tenant_id", "scope_id", "queue_id", "sort_key", "visible_at", "attempts", "reclaims", "replays"),
    *("message_type", "source_type", "source_id", "correlation_id", "causation_id", "parent_id", "priority_tier"),
    *("priority_score", "labels", "content_type", "body", "expires_at", "deadline_at", "idempotency_key", "hitl_spec"),
    *("published_by", "created_at", "updated_at"),
)
"""The columns of a new row; all others are NULL."""

_DEFAULTS = {"attempts": 0, "reclaims": 0, "replays": 0, "message_type": "message", "priority_tier": 2} | {
    "priority_score": 0,
    "labels": "{}",
    "content_type": "application/json",
}
"""As the table has them; of all other columns it is NULL."""

MOST_LABELS = 50
MAX_DELAY_MS = 366 * 86_400_000
_TIER_NUMBERS = {tier: number for number, tier in enumerate(TIERS)}
_NORMAL = _TIER_NUMBERS["normal"]
_encode = msgspec.json.Encoder().encode


class NewRow(msgspec.Struct, gc=False):
    """One message on its way in."""

    id: str
    values: Row
    """In the order of COLUMNS."""
    state: str
    sort_key: int
    size: int
    due: tuple[tuple[str, int], ...]
    """What of it is due, and when."""
    message: NewMessage


def take_in(
    caller: Caller, queue: QueueRecord, messages: Sequence[NewMessage], *, mint: IdMint, now: int, max_body_bytes: int
) -> list[NewRow | Refusal]:
    """A row for each message, or why there is none."""
    made: list[NewRow | Refusal] = []
    for message, message_id in zip(messages, mint.row(len(messages), now), strict=True):
        wrong = _wrong(message, now, max_body_bytes)
        made.append(_row(queue, message, message_id, now, caller.actor) if wrong is None else _refusal(*wrong))
    return made


def lean(rows: Sequence[Row]) -> tuple[tuple[str, ...], list[Row]]:
    """Columns and rows without those columns that all rows leave at their default: most messages say little.

    >>> names, _ = lean(
    ...     [(*"abcde", None, 0, 0, 0, "message", *(None,) * 5, 2, 0, "{}", "application/json", "1", *(None,) * 7)]
    ... )
    >>> names
    ('id', 'tenant_id', 'scope_id', 'queue_id', 'sort_key', 'body')
    """
    kept = [at for at, name in enumerate(COLUMNS) if any(row[at] != _DEFAULTS.get(name) for row in rows)]
    pick = itemgetter(*kept)
    return pick(COLUMNS), list(map(pick, rows))


def says_no_more(message: NewMessage, max_body_bytes: int) -> bool:
    """Whether a message is nothing but a body and a key, both as they should be."""
    said = (
        *(message.message_type, message.priority_tier, message.priority_score, message.labels, message.content_type),
        *(message.ttl_s, message.deadline, message.delay_s, message.visible_at, message.correlation_id),
        *(message.causation_id, message.parent_id, message.source_type, message.source_id, len(message.hitl_spec)),
    )
    return said == _NO_MORE and _wrong(message, 0, max_body_bytes) is None


_NO_MORE: tuple[object, ...] = ("message", "normal", 0, dict[str, str](), "application/json", *(None,) * 9, 0)


def plain_rows(
    caller: Caller, queue: QueueRecord, bodies: Sequence[msgspec.Raw], keys: list[str | None], *, mint: IdMint, now: int
) -> PlainRows:
    """The rows of messages that say nothing but a body and a key, for a queue that gives them no time to live."""
    place = None
    if queue.ordering != "fifo":
        place = sort_key(queue.ordering, created_at=now, tier=_NORMAL, score=0, deadline_at=None)
    count = len(bodies)
    ids = mint.row(count, now)
    texts, size = [str(body, "utf-8") for body in bodies], sum(map(len, bodies))  # pyright: ignore[reportArgumentType]
    return PlainRows(
        queue.tenant_id, queue.scope_id, queue.id, caller.actor, place, [now] * count, ids, texts, keys, size
    )


def in_full(queue: QueueRecord, rows: PlainRows) -> list[NewRow]:
    """The same rows one by one, for a transaction that has to look at each."""
    return [
        _row(queue, NewMessage(body=msgspec.Raw(body.encode()), idempotency_key=key), id_, at, rows.published_by)
        for id_, at, body, key in zip(rows.ids, rows.created_at, rows.bodies, rows.keys, strict=True)
    ]


def _row(queue: QueueRecord, message: NewMessage, message_id: str, now: int, actor: str) -> NewRow:
    body = bytes(message.body)
    visible_at = _visible_at(message, now)
    state = "pending" if visible_at is None else "delayed"
    ttl = message.ttl_s if message.ttl_s is not None else queue.default_ttl_s
    tier = _TIER_NUMBERS[message.priority_tier]
    place = now  # of most queues; `sort_key` knows them all
    if queue.ordering != "fifo":
        score = message.priority_score
        place = sort_key(queue.ordering, created_at=now, tier=tier, score=score, deadline_at=message.deadline)
    expires_at = None if ttl is None else now + ttl * 1000
    values = (
        *(message_id, queue.tenant_id, queue.scope_id, queue.id, place, visible_at, 0, 0, 0),
        *(message.message_type, message.source_type, message.source_id, message.correlation_id or message_id),
        *(message.causation_id, message.parent_id, tier, message.priority_score),
        *(_encode(message.labels).decode() if message.labels else "{}", message.content_type, body.decode()),
        *(expires_at, message.deadline, message.idempotency_key),
        *(bytes(message.hitl_spec).decode() if len(message.hitl_spec) else None, actor, now, now),
    )
    times = (visible_at, expires_at, message.deadline)
    due = () if times == _NEVER else tuple((kind, at) for kind, at in zip(DUE, times, strict=True) if at is not None)
    return NewRow(message_id, values, state, place, len(body), due, message)


def is_found_by_more(row: NewRow) -> bool:
    """Whether a message has attributes that the search table holds. Most say nothing: one comparison for all of them."""
    of = row.message
    said = (of.message_type, of.source_type, of.source_id, of.correlation_id, of.parent_id, row.state)
    return said != _FOUND_BY_NOTHING


def _visible_at(message: NewMessage, now: int) -> int | None:
    if message.visible_at is not None:
        return message.visible_at if message.visible_at > now else None
    if message.delay_s:
        return now + int(message.delay_s * 1000)
    return None


def _refusal(where: str, reason: str) -> Refusal:
    return Refusal(InvalidInput.code, str(InvalidInput(where=where, reason=reason)))


def _wrong(message: NewMessage, now: int, max_body_bytes: int) -> tuple[str, str] | None:
    """The first field that cannot be, and why. Most messages say little: what they do not say costs one comparison."""
    size = len(message.body)
    if not 0 < size <= max_body_bytes:
        return "body", _wrong_body(size, max_body_bytes)
    if not 0 <= message.priority_score <= 999:
        return "priority_score", f"{message.priority_score} is not between 0 and 999"
    if (
        *(message.message_type, message.content_type, message.correlation_id, message.causation_id),
        *(message.source_type, message.source_id),
    ) != _NOTHING_SAID:
        for name, longest in _TEXTS:
            text: str | None = getattr(message, name)
            if text is not None and (wrong := _wrong_text(text, longest)) is not None:
                return name, wrong
    key = message.idempotency_key
    if key is not None and (wrong := _wrong_text(key, 200)) is not None:
        return "idempotency_key", wrong
    if message.labels and (wrong := _wrong_labels(message.labels)) is not None:
        return "labels", wrong
    if (*(message.ttl_s, message.deadline, message.delay_s, message.visible_at, message.parent_id),) == _NO_TIMES:
        return None
    return _wrong_times(message, now)


_NEVER = (None, None, None)
_NOTHING_SAID = ("message", "application/json", None, None, None, None)
_FOUND_BY_NOTHING = ("message", None, None, None, None, "pending")
_NO_TIMES = (None, None, None, None, None)


def _wrong_body(size: int, most: int) -> str:
    if not size:
        return "it is empty; send any JSON value, null if there is nothing to say"
    return f"it has {size} bytes, the limit is {most}: send a reference instead"


_TEXTS = (
    ("message_type", 200),
    ("content_type", 100),
    ("correlation_id", 200),
    ("causation_id", 200),
    ("source_type", 100),
    ("source_id", 200),
)


def _wrong_text(text: str, longest: int) -> str | None:
    if not text:
        return "it is empty; leave it out instead"
    if len(text) > longest:
        return f"it has {len(text)} characters, the limit is {longest}"
    return "it holds a NUL character" if "\0" in text else None


def _wrong_labels(labels: dict[str, str]) -> str | None:
    if len(labels) > MOST_LABELS:
        return f"there are {len(labels)}, the limit is {MOST_LABELS}"
    for name, value in labels.items():
        wrong = _wrong_text(name, 100) or (_wrong_text(value, 200) if value else None)
        if wrong is not None:
            return f"{name[:100]!r}: {wrong}"
    return None


def _wrong_times(message: NewMessage, now: int) -> tuple[str, str] | None:
    if message.ttl_s is not None and not 0 < message.ttl_s <= 10**10:
        return "ttl_s", f"{message.ttl_s} is no time to live; pass whole seconds from 1 on"
    if message.deadline is not None and not 0 < message.deadline < 2**53 - 1:
        return "deadline", f"{message.deadline} is not a time; pass milliseconds since 1970"
    if message.delay_s is not None and message.visible_at is not None:
        return "delay_s", "pass it or visible_at, not both"
    if message.delay_s is not None and not 0 <= message.delay_s <= MAX_DELAY_MS / 1000:
        return "delay_s", f"{message.delay_s} is not between 0 and a year"
    if message.visible_at is not None and not 0 <= message.visible_at <= now + MAX_DELAY_MS:
        return "visible_at", f"{message.visible_at} is no time within a year; pass milliseconds since 1970"
    if message.parent_id is not None and minted_ms(message.parent_id) is None:
        return "parent_id", f"{message.parent_id[:40]!r} is no message id"
    return None

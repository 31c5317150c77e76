"""What a claim answers: its messages, as objects for a program, or as JSON for a request."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from relevo.contract.claims import Claimed
from relevo.work.message.model import AS_WRITTEN, TIERS
from relevo.work.store.interface import ClaimedRow
from relevo.work.store.lease import Lease

_encode = msgspec.json.Encoder().encode
_NO_LABELS = AS_WRITTEN(b"{}")
_NOTHING = msgspec.Raw(b"null")


class ClaimedMessages:
    """The messages that one lease took; of a broadcast queue those of a subscription, which are made already."""

    def __init__(self, queue: str, lease: Lease, rows: Sequence[ClaimedRow]) -> None:
        self._queue = queue
        self._lease = lease
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def messages(self) -> list[Claimed]:
        return [self._message(row) for row in self._rows]

    def encoded(self) -> bytes:
        """The JSON of `messages`, without an object for each: what many of them share is written down once."""
        shared: dict[tuple[object, ...], str] = {}
        parts: list[str] = []
        for row in self._rows:
            alike = row[2:9]
            middle = shared.get(alike)
            if middle is None:
                middle = shared[alike] = self._middle(row)
            message_id, body, correlation_id = row.id, row.body, row.correlation_id
            correlation = f'"{message_id}"' if correlation_id == message_id else _json(correlation_id)
            rare = "null" if row.causation_id is None else _json(row.causation_id)
            parent = "null" if row.parent_id is None else f'"{row.parent_id}"'
            deadline = "null" if row.deadline_at is None else row.deadline_at
            parts.append(
                f'{{"id":"{message_id}"{middle}{"null" if body is None else body},"correlation_id":{correlation}'
                f',"causation_id":{rare},"parent_id":{parent},"deadline":{deadline},"created_at":{row.created_at}}}'
            )
        return f"[{','.join(parts)}]".encode()

    def _middle(self, row: ClaimedRow) -> str:
        lease = self._lease
        return (
            f',"queue":{_json(self._queue)},"claim_token":"{lease.token}","claim_until":{lease.until}'
            f',"attempts":{row.attempts},"reclaims":{row.reclaims},"message_type":{_json(row.message_type)}'
            f',"priority_tier":"{TIERS[row.priority_tier]}","priority_score":{row.priority_score},"labels":{row.labels}'
            f',"content_type":{_json(row.content_type)},"body":'
        )

    def _message(self, row: ClaimedRow) -> Claimed:
        return Claimed(
            id=row.id,
            queue=self._queue,
            claim_token=self._lease.token,
            claim_until=self._lease.until,
            attempts=row.attempts,
            reclaims=row.reclaims,
            message_type=row.message_type,
            priority_tier=TIERS[row.priority_tier],
            priority_score=row.priority_score,
            labels=_NO_LABELS if row.labels == "{}" else AS_WRITTEN(row.labels.encode()),
            content_type=row.content_type,
            body=_NOTHING if row.body is None else msgspec.Raw(row.body.encode()),
            correlation_id=row.correlation_id,
            causation_id=row.causation_id,
            parent_id=row.parent_id,
            deadline=row.deadline_at,
            created_at=row.created_at,
        )


class ReadyMessages:
    """Messages that are made already."""

    def __init__(self, messages: list[Claimed]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def messages(self) -> list[Claimed]:
        return self._messages

    def encoded(self) -> bytes:
        return _encode(self._messages)


def _json(text: str) -> str:
    return _encode(text).decode()

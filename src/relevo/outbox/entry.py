"""One job as it stands in the outbox: what is written at the add, and read by the relay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from relevo.engine.job.dedup import Dedup
from relevo.errors import Undecodable
from relevo.wire.retry import RetryOverride


class StoredDedup(msgspec.Struct, forbid_unknown_fields=True):
    """`Dedup`, as JSON."""

    kind: str
    key: str
    hold_ms: int


class Options(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What the column `options` holds, as JSON: everything of `Queue.add` but the delay, which is a column of its own."""

    attempts: int | None = None
    backoff: dict[str, Any] | None = None
    lane: str | None = None
    dedup: StoredDedup | None = None

    @staticmethod
    def of(retry: RetryOverride | None, lane: str | None, dedup: Dedup | None) -> Options:
        backoff = None if retry is None or retry.backoff is None else msgspec.structs.asdict(retry.backoff)
        return Options(
            None if retry is None else retry.max_attempts,
            None if backoff is None else {key: value for key, value in backoff.items() if value is not None},
            lane,
            None if dedup is None else StoredDedup(dedup.kind, dedup.key, dedup.hold_ms),
        )

    def encode(self) -> str | None:
        """The JSON, or None when there is nothing to say."""
        return None if self == Options() else _encode(self).decode()


class Entry(msgspec.Struct, frozen=True):
    """One row that a relay holds."""

    seq: int
    job_id: str
    queue: str
    name: str
    data: bytes
    options: str | None
    run_at_ms: int | None
    attempts: int

    @property
    def special(self) -> bool:
        """Whether it travels apart from those that only have an id: its place in the row of adds must be kept."""
        return self.options is not None or self.run_at_ms is not None

    def as_add(self, now_ms: int) -> Mapping[str, Any]:
        """The arguments of the add. The delay counts from the transaction's add, not from now."""
        chosen = self._options()
        add: dict[str, Any] = {"name": self.name, "data": self.data, "job_id": self.job_id}
        if self.run_at_ms is not None and self.run_at_ms > now_ms:
            add["delay_ms"] = self.run_at_ms - now_ms
        if chosen.attempts is not None:
            add["attempts"] = chosen.attempts
        if chosen.backoff is not None:
            add["backoff"] = chosen.backoff
        if chosen.lane is not None:
            add["lane"] = chosen.lane
        if chosen.dedup is not None:
            add["dedup"] = Dedup(chosen.dedup.kind, chosen.dedup.key, chosen.dedup.hold_ms)
        return add

    def _options(self) -> Options:
        if self.options is None:
            return Options()
        try:
            return _decode(self.options)
        except msgspec.MsgspecError as error:
            raise Undecodable(size=len(self.options), what="set of add options", reason=str(error)) from error


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Options).decode

"""An event: an entry of the `:events` stream. Plain text fields in a fixed order: `e, id, ts, [n], extras`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MAX_EVENTS = 100_000

NUMBERS = frozenset({"attempt", "backoff_ms", "delay_ms", "duration_us", "ts", "progress", "wait_ms"})


class EventFields(NamedTuple):
    """What one event says. `id` is empty for events of the queue itself (`drained`).

    >>> EventFields("active", "01J9", 1_700_000_000_000, "send", {"attempt": 1}).encode()
    [b'e', b'active', b'id', b'01J9', b'ts', b'1700000000000', b'n', b'send', b'attempt', b'1']
    """

    event: str
    id: str
    ts: int
    name: str
    extras: Mapping[str, int | str]

    def encode(self) -> list[bytes]:
        fields = [b"e", self.event.encode(), b"id", self.id.encode(), b"ts", b"%d" % self.ts]
        if self.name:
            fields += (b"n", self.name.encode())
        for extra, value in self.extras.items():
            fields += (extra.encode(), str(value).encode(errors="replace"))
        return fields

    @staticmethod
    def decode(fields: Sequence[bytes]) -> EventFields:
        """Never fails: a field that should be a number and is not stays text, so one odd event stops nobody."""
        values: dict[str, int | str] = {}
        for at in range(0, len(fields) - 1, 2):
            key, text = fields[at].decode(errors="replace"), fields[at + 1].decode(errors="replace")
            values[key] = int(text) if key in NUMBERS and _is_number(text) else text
        event, job_id, name = (str(values.pop(key, "")) for key in ("e", "id", "n"))
        ts = values.pop("ts", 0)
        return EventFields(event, job_id, ts if isinstance(ts, int) else 0, name, values)


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= 20  # 64 bits; `int` itself refuses thousands of digits

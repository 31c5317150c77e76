"""An alert: what is wrong, where, since when. It is told when it begins and when it is over, under the same id."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

Kind = Literal["stuck", "overdue", "silent", "burning"]

DDL = (
    "alert_id string, kind string, state string, source string, queue string, job_id string, name string, "
    "since_ms bigint, at_ms bigint, limit_ms bigint, detail string"
)


class Alert(NamedTuple):
    """One row of the watch."""

    alert_id: str
    """The same for the beginning and the end, and whenever it is told again: a receiver knows it by this and `state`."""
    kind: Kind
    state: Literal["open", "over"]
    source: str
    queue: str
    job_id: str
    """Empty where the queue as a whole is meant."""
    name: str
    since_ms: int
    at_ms: int
    """When it was noticed."""
    limit_ms: int
    detail: str

    @property
    def told_id(self) -> str:
        """The id of telling it: an alert is told twice, its beginning and its end."""
        return f"{self.alert_id}-{self.state}"

    def document(self) -> dict[str, Any]:
        """As receivers get it: times as text, nothing that is empty."""
        fields = {**self._asdict(), "since": _moment(self.since_ms), "at": _moment(self.at_ms)}
        return {name: value for name, value in fields.items() if name not in ("since_ms", "at_ms") and value != ""}

    def sentence(self) -> str:
        """
        >>> Alert("1f", "silent", "over", "s", "mail", "", "", 0, 60000, 30000, "events again").sentence()
        'over: mail is silent since 1970-01-01T00:00:00Z: events again'
        """
        what = f"{self.queue} is {self.kind}" if not self.job_id else f"{self.queue}: job {self.job_id} is {self.kind}"
        word = "" if self.state == "open" else "over: "
        return f"{word}{what} since {_moment(self.since_ms)}: {self.detail}"


def alert_id(kind: Kind, source: str, queue: str, job_id: str, since_ms: int) -> str:
    """Made of what it is about, so that a batch that runs again makes the same one."""
    text = "\0".join((kind, source, queue, job_id, str(since_ms)))
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=10).hexdigest()


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

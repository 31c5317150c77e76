"""The dead letters of a queue: look at them, send them back, throw them away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from relevo.arguments import positive, texts
from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, pairs
from relevo.broker.scripts import script
from relevo.errors import Undecodable, WrongType
from relevo.wire.dead import DeadLetterFields
from relevo.wire.envelope import Envelope
from relevo.wire.frame import is_frame
from relevo.wire.keys import QueueKeys

REPLAY = script("replay", __name__)

_PAGE = 200


@dataclass(frozen=True)
class DeadLetter:
    """One dead letter. `payload` is the whole envelope as it was; `envelope` is None when it cannot be read."""

    dlq_id: str
    source_id: str
    reason: str
    detail: str | None
    payload: bytes
    name: str
    raw: bytes = b""
    attempts_made: int | None = None
    """How often the job was run; None when there is no job in it."""
    traceback: str | None = None
    """Of its last run, without relevo's own frames; None when no run failed, and for letters of other engines."""

    @property
    def envelope(self) -> Envelope | None:
        try:
            return Envelope.decode(self.payload)
        except Undecodable:
            return None

    @property
    def revived(self) -> bytes | None:
        """What goes back into the stream: the job with a fresh budget of attempts, or the whole frame of jobs that a worker
        without frames could not read; None when it is neither."""
        envelope = self.envelope
        if envelope is not None:
            return envelope.with_attempt(0).encode()
        return self.payload if is_frame(self.payload) else None

    @property
    def at_ms(self) -> int:
        """When it was dead-lettered."""
        return int(self.dlq_id.partition("-")[0])

    def as_dict(self) -> dict[str, Any]:
        """What ChasquiMQ's `peek_dlq` tells of a letter."""
        return {
            "dlq_id": self.dlq_id,
            "source_id": self.source_id,
            "reason": self.reason,
            "detail": self.detail,
            "payload": self.payload,
            "name": self.name,
        }


@dataclass(frozen=True)
class DeadLetterFilter:
    """Which dead letters are meant; what is left out matches all.

    >>> letter = DeadLetter("5-0", "1-0", "stalled", None, b"", "send")
    >>> DeadLetterFilter(reasons={"stalled"}).matches(letter), DeadLetterFilter(names={"other"}).matches(letter)
    (True, False)
    """

    reasons: Collection[str] = field(default=())
    names: Collection[str] = field(default=())
    job_ids: Collection[str] = field(default=())
    since_ms: int | None = None
    until_ms: int | None = None

    def __post_init__(self) -> None:
        for argument in ("reasons", "names", "job_ids"):
            texts(argument, getattr(self, argument))
        for argument in ("since_ms", "until_ms"):
            value: object = getattr(self, argument)
            if isinstance(value, datetime):
                remedy = f"Pass milliseconds since 1970: int({argument.removesuffix('_ms')}.timestamp() * 1000)."
                raise WrongType(argument=argument, value=value, expected="int", remedy=remedy)
            if value is not None:
                positive(argument, value, zero=True)

    def matches(self, letter: DeadLetter) -> bool:
        if self.reasons and letter.reason not in self.reasons:
            return False
        if self.names and letter.name not in self.names:
            return False
        if self.since_ms is not None and letter.at_ms < self.since_ms:
            return False
        if self.until_ms is not None and letter.at_ms >= self.until_ms:
            return False
        if self.job_ids:
            envelope = letter.envelope
            return envelope is not None and envelope.id in self.job_ids
        return True


class DeadLetters:
    """All of one queue. Pages through the stream, so letters that cannot be sent back never hide those behind them."""

    def __init__(self, link: Link, keys: QueueKeys, *, stream_cap: int) -> None:
        self._link = link
        self._keys = keys
        self._stream_cap = stream_cap

    async def each(self, wanted: DeadLetterFilter | None = None) -> AsyncIterator[DeadLetter]:
        """The letters there were when this began, oldest first: one that dies again meanwhile is not seen twice."""
        newest: Reply = await self._link.call("XREVRANGE", self._keys.dead, "+", "-", "COUNT", 1)
        if not newest:
            return
        last, after = newest[0][0], b"-"
        if wanted is not None and wanted.since_ms is not None:
            after = b"%d" % max(0, wanted.since_ms)  # ids begin with the time
        while True:
            page: Reply = await self._link.call("XRANGE", self._keys.dead, after, last, "COUNT", _PAGE)
            for entry_id, fields in page:
                letter = _letter(entry_id, fields)
                if wanted is None or wanted.matches(letter):
                    yield letter
            if len(page) < _PAGE:
                return
            after = b"(" + page[-1][0]

    async def peek(self, limit: int, wanted: DeadLetterFilter | None = None) -> list[DeadLetter]:
        found: list[DeadLetter] = []
        if limit > 0:
            async for letter in self.each(wanted):
                found.append(letter)
                if len(found) == limit:
                    break
        return found

    async def replay(
        self,
        limit: int,
        wanted: DeadLetterFilter | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Sends up to `limit` letters back with a fresh budget of attempts; a letter goes back once, whoever else replays.
        Letters whose envelope cannot be read stay where they are. Ends early when the queue is full."""
        moved, batch = 0, list[DeadLetter]()
        async for letter in self.each(wanted):
            if moved + len(batch) >= limit:
                break
            if letter.revived is not None:
                batch.append(letter)
            if len(batch) == _PAGE:
                sent, room = await self._send_back(batch)
                moved += sent
                if progress is not None:
                    progress(moved)
                if room <= 0:
                    return moved
                batch = []
        if batch:
            moved += (await self._send_back(batch))[0]
            if progress is not None:
                progress(moved)
        return moved

    async def purge(
        self,
        limit: int | None = None,
        wanted: DeadLetterFilter | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Deletes letters for good; the number deleted."""
        gone, batch = 0, list[str]()
        async for letter in self.each(wanted):
            if limit is not None and gone + len(batch) >= limit:
                break
            batch.append(letter.dlq_id)
            if len(batch) == _PAGE:
                gone += int(await self._link.call("XDEL", self._keys.dead, *batch))
                batch = []
                if progress is not None:
                    progress(gone)
        if batch:
            gone += int(await self._link.call("XDEL", self._keys.dead, *batch))
            if progress is not None:
                progress(gone)
        return gone

    async def get(self, dlq_id: str) -> DeadLetter | None:
        """One letter, if it is still there."""
        found: Reply = await self._link.call("XRANGE", self._keys.dead, dlq_id, dlq_id, "COUNT", 1)
        return _letter(*found[0]) if found else None

    async def latest(self, job_id: str, *, most: int = 10_000) -> DeadLetter | None:
        """The newest letter of one job among the last `most`."""
        before, looked = b"+", 0
        while looked < most:
            page: Reply = await self._link.call("XREVRANGE", self._keys.dead, before, "-", "COUNT", _PAGE)
            for entry_id, fields in page:
                letter = _letter(entry_id, fields)
                if letter.envelope is not None and letter.envelope.id == job_id:
                    return letter
            if len(page) < _PAGE:
                return None
            before, looked = b"(" + page[-1][0], looked + _PAGE
        return None

    async def after(self, dlq_id: str, limit: int) -> list[DeadLetter]:
        """The next letters behind one of them, oldest first; `0-0` for the first."""
        found: Reply = await self._link.call("XRANGE", self._keys.dead, f"({dlq_id}", "+", "COUNT", limit)
        return [_letter(entry_id, fields) for entry_id, fields in found]

    async def replay_one(self, letter: DeadLetter, payload: bytes | None = None) -> bool:
        """Sends one letter back, with another payload if one is given; false when it is gone, or the queue is full."""
        envelope = letter.envelope
        revived = letter.revived
        if payload is not None and envelope is not None:
            revived = Envelope(envelope.id, payload, envelope.created_at_ms, 0, envelope.retry).encode()
        if revived is None:
            return False
        arguments: list[Argument] = [self._stream_cap, letter.dlq_id, revived, letter.name]
        moved, _ = await self._link.run(REPLAY, [self._keys.dead, self._keys.stream], *arguments)
        return int(moved) == 1

    async def discard(self, dlq_id: str) -> bool:
        """Deletes one letter for good; false when it was gone already."""
        return int(await self._link.call("XDEL", self._keys.dead, dlq_id)) == 1

    async def count(self) -> int:
        return int(await self._link.call("XLEN", self._keys.dead))

    async def _send_back(self, letters: list[DeadLetter]) -> tuple[int, int]:
        """How many went back (another replay may have taken some), and how much room the queue has left."""
        arguments: list[Argument] = [self._stream_cap]
        for letter in letters:
            revived = letter.revived
            assert revived is not None
            arguments += (letter.dlq_id, revived, letter.name)
        moved, room = await self._link.run(REPLAY, [self._keys.dead, self._keys.stream], *arguments)
        return int(moved), int(room)


def _letter(entry_id: bytes, flat: list[bytes]) -> DeadLetter:
    fields = DeadLetterFields.decode(pairs(flat))
    return DeadLetter(
        entry_id.decode(),
        fields.source_id,
        fields.reason,
        fields.detail or None,
        fields.d,
        fields.name,
        fields.raw,
        fields.attempts_made,
        fields.traceback or None,
    )

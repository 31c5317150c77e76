"""Opens entries of the stream: what can run becomes a delivery, what never can goes to the dead letters."""

from __future__ import annotations

from relevo.broker.resp import pairs
from relevo.engine.events.event_log import EventLog
from relevo.engine.settling.delivery import Delivery, HeldDeliveries
from relevo.engine.settling.frame import unpacked
from relevo.engine.settling.settler import Settler
from relevo.errors import Undecodable
from relevo.wire.dead import DeadLetterFields, Reason, encode_raw
from relevo.wire.envelope import Envelope
from relevo.wire.frame import decode_frame

_NOBODY = Envelope("", b"", 0)
"""For an entry that is no job."""


class EntryOpener:
    """For one consumer. What it dead-letters or takes apart is handed to the settler, and held until that is written."""

    def __init__(
        self,
        held: HeldDeliveries,
        settler: Settler,
        events: EventLog,
        *,
        max_payload: int,
        max_stalled: int,
        takes_apart: bool = False,
    ) -> None:
        self._held = held
        self._settler = settler
        self._log = events
        self._max_payload = max_payload
        self._max_stalled = max_stalled
        self._takes_apart = takes_apart
        """Whether jobs that came in one entry are given entries of their own instead of being run: limits count entries."""
        self._names: dict[bytes, str] = {}

    def delivery(self, entry_id: bytes, fields: list[bytes], before: int, sent_at: float) -> Delivery | None:
        """The entry as a delivery, or None when it can never run (and is on its way to the dead letters)."""
        if len(fields) == 4 and fields[0] == b"d" and fields[2] == b"n":
            data, raw_name = fields[1], fields[3]  # the usual shape, without a dict
        else:
            values = pairs(fields)
            data, raw_name = values.get(b"d"), values.get(b"n", b"")
        letter: tuple[Reason, str, bytes, bytes]
        if data is None:
            letter = (Reason.MALFORMED, "no field `d`", b"", encode_raw(fields))
        elif len(data) > self._max_payload:
            letter = (Reason.OVERSIZE_PAYLOAD, f"{len(data)} bytes, the limit is {self._max_payload}", data, b"")
        else:
            try:
                name = self._names.get(raw_name) or self._name(raw_name)
                return Delivery(entry_id, Envelope.decode(data), name, before, sent_at)
            except Undecodable as error:
                letter = (Reason.DECODE_FAILED, error.reason, data, b"")
            except UnicodeDecodeError:
                letter = (Reason.MALFORMED, "the name is not UTF-8", data, encode_raw(fields))
        self._reject(Delivery(entry_id, _NOBODY, raw_name.decode(errors="replace"), before, sent_at), *letter)
        return None

    def unpack(self, entry_id: bytes, data: bytes, before: int, sent_at: float) -> list[Delivery]:
        """The jobs of a frame, as far as they are to run here. A frame that a dead worker left is taken apart: the job that
        killed it is then counted, and in the end dead-lettered, alone."""
        entry = Delivery(entry_id, _NOBODY, "", before, sent_at)
        if len(data) > self._max_payload:
            reason = f"a frame of {len(data)} bytes, the limit is {self._max_payload}"
            self._reject(entry, Reason.OVERSIZE_PAYLOAD, reason, data, b"")
            return []
        try:
            jobs = unpacked(entry, decode_frame(data))
        except Undecodable as error:
            self._reject(entry, Reason.DECODE_FAILED, error.reason, data, b"")
            return []
        self._held.hold(entry)
        if not before and not self._takes_apart:
            return jobs
        for job in jobs:
            self._settler.put_back(job)
        return []

    def _reject(self, delivery: Delivery, reason: Reason, detail: str, data: bytes, raw: bytes) -> None:
        self._held.hold(delivery)
        self._dead_letter(delivery, reason, detail, data, raw)

    def _name(self, raw: bytes) -> str:
        name = raw.decode()
        if len(self._names) < 1000:  # names are few; a producer who makes them up must not fill our memory
            self._names[raw] = name
        return name

    def survived(self, delivery: Delivery) -> bool:
        """Whether a job of a dead worker gets another chance. Crashes are counted by the group, apart from retries."""
        if delivery.before >= self._max_stalled:
            detail = f"its worker died {delivery.before} times"
            self._dead_letter(delivery, Reason.STALLED, detail, delivery.envelope.encode(), b"")
            return False
        if self._log.enabled:
            self._settler.event(self._log.stalled(delivery.envelope.id, delivery.name, delivery.before))
        return True

    def _dead_letter(self, delivery: Delivery, reason: Reason, detail: str, data: bytes, raw: bytes) -> None:
        made = delivery.envelope.attempt
        letter = DeadLetterFields(data, delivery.name, delivery.entry_id.decode(), reason, detail, raw, attempts=made)
        self._settler.dead_letter(delivery, letter, made)

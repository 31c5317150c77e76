"""What a queue's schedules have fired, seen from outside; and their clocks, which a test may turn back."""

import msgspec

from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.repeat import RepeatSpec
from tests.servers.server import Client, Server

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def slot_of_id(job_id: str) -> int:
    """The time in a ULID: of a fire, the slot it is for."""
    ms = 0
    for letter in job_id[:10]:
        ms = ms << 5 | _ALPHABET.index(letter)
    return ms


class Fires:
    """The fires that wait in the stream, in order."""

    def __init__(self, server: Server, raw: Client, keys: QueueKeys) -> None:
        self.server = server
        self._raw = raw
        self._keys = keys

    async def envelopes(self) -> list[Envelope]:
        return [Envelope.decode(fields[b"d"]) for _, fields in await self._raw.xrange(self._keys.stream)]

    async def slots(self) -> list[int]:
        return [slot_of_id(envelope.id) for envelope in await self.envelopes()]

    async def delayed_slots(self) -> list[int]:
        """The slots of the fires that wait in the delayed set."""
        members = await self._raw.zrange(self._keys.delayed, 0, -1)
        return [slot_of_id(Envelope.decode(DelayedMember.decode(member).envelope).id) for member in members]

    def now(self) -> int:
        """The server's clock, in milliseconds."""
        seconds, micros = self.server.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def turn_back(self, key: str, ms: int) -> int:
        """Makes the schedule due since `ms` milliseconds: as if nobody had looked since. Returns that slot."""
        slot = self.now() - ms
        await self.set_score(key, slot)
        return slot

    async def set_score(self, key: str, score: float) -> None:
        await self._raw.zadd(self._keys.repeat, {key: score})

    async def score(self, key: str) -> int | None:
        score = await self._raw.zscore(self._keys.repeat, key)
        return None if score is None else int(score)

    async def is_paused(self, key: str) -> bool:
        return await self._raw.zscore(self._keys.repeat_paused, key) is not None

    async def store(self, key: str, spec: RepeatSpec | bytes, **changes: int) -> None:
        """Writes a spec past the upsert, which would refuse it or give it a new beat."""
        if isinstance(spec, RepeatSpec):
            spec = msgspec.structs.replace(spec, **changes).encode()
        await self._raw.hset(self._keys.repeat_spec(key), "spec", spec)

    async def stored(self, key: str) -> dict[bytes, bytes]:
        """The schedule's hash."""
        return await self._raw.hgetall(self._keys.repeat_spec(key))

"""The consumer group of a test's queue, seen from outside: who holds what, and since how many deliveries."""

from typing import NamedTuple

from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import encode_payload
from tests.servers.server import Client

GROUP = "default"


class Pending(NamedTuple):
    """One entry that was delivered and not settled."""

    entry_id: bytes
    consumer: str
    idle_ms: int
    deliveries: int


class Group:
    """The group `default`; `make` has to be called before anything else when no worker has made it."""

    def __init__(self, raw: Client, keys: QueueKeys) -> None:
        self._raw = raw
        self._keys = keys

    async def make(self) -> None:
        await self._raw.xgroup_create(self._keys.stream, GROUP, "0", mkstream=True)

    async def pending(self) -> list[Pending]:
        rows = await self._raw.xpending_range(self._keys.stream, GROUP, "-", "+", 1000)
        return [
            Pending(row["message_id"], row["consumer"].decode(), row["time_since_delivered"], row["times_delivered"])
            for row in rows
        ]

    async def consumers(self) -> set[str]:
        return {row["name"].decode() for row in await self._raw.xinfo_consumers(self._keys.stream, GROUP)}

    async def length(self) -> int:
        return await self._raw.xlen(self._keys.stream)

    async def put(self, job_id: str, data: object = None, *, name: str = "job", attempt: int = 0) -> bytes:
        """Adds a job as bytes, past the producer: the entry's id."""
        envelope = Envelope(job_id, encode_payload(data, name), 1_700_000_000_000, attempt).encode()
        return await self._raw.xadd(self._keys.stream, {"d": envelope, "n": name})

    async def die_with(self, count: int = 1, *, consumer: str = "c-dead", times: int = 1) -> list[bytes]:
        """Reads as a worker that then dies; `times` over 1: its entries then pass on to as many others, who die too."""
        reply = await self._raw.xreadgroup(GROUP, consumer, {self._keys.stream: ">"}, count=count)
        ids: list[bytes] = [entry[0] for entry in reply[0][1]]
        for heir in range(1, times):
            await self._raw.xclaim(self._keys.stream, GROUP, f"{consumer}-{heir}", 0, ids)
        return ids

    async def take_over(self, consumer: str, ids: list[bytes]) -> None:
        """Claims entries for another consumer, as a worker that thinks their owner is dead."""
        await self._raw.xclaim(self._keys.stream, GROUP, consumer, 0, ids)

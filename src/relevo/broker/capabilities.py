"""What a server can do, asked once for each connection by trying: nothing is written, and no version is parsed."""

from __future__ import annotations

from dataclasses import dataclass

from relevo.broker.resp import Reply, ReplyError, command
from relevo.broker.transport import Transport, send


@dataclass(frozen=True)
class Capabilities:
    """The native commands of newer servers. Where one is missing a script does the same, with the same bytes in the keys."""

    ack_delete: bool
    """XACKDEL (Redis 8.2): ack and delete in one step."""
    read_claim: bool
    """XREADGROUP ... CLAIM (Redis 8.4): new and abandoned entries in one read."""

    @staticmethod
    async def probe(transport: Transport, tag: bytes) -> Capabilities:
        acked, read = await send(transport, Capabilities.questions(tag), 2)
        return Capabilities.told(acked, read)

    @staticmethod
    def questions(tag: bytes) -> bytes:
        """Two commands, packed; `told` takes their replies."""
        key = tag + b":probe"  # never written: both commands answer for a key that is not there
        asked = command("XACKDEL", key, "probe", "IDS", 1, "1-1")
        return asked + command("XREADGROUP", "GROUP", "probe", "probe", "COUNT", 1, "CLAIM", 1000, "STREAMS", key, ">")

    @staticmethod
    def told(acked: Reply, read: Reply) -> Capabilities:
        return Capabilities(
            ack_delete=not isinstance(acked, ReplyError),
            read_claim=isinstance(read, ReplyError) and read.code == "NOGROUP",
        )

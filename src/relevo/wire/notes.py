"""Notes: what relevo knows about a job beyond its envelope, in a hash of the queue's own (`:notes`, field = job id).

The envelope has no room for more (a ChasquiMQ worker dead-letters what has a sixth element), so lanes, dedup keys, flows and
trace context travel beside it. A worker that does not know of notes runs the job all the same.
"""

from __future__ import annotations

import msgspec

from relevo.errors import BadArgument

ALL_LANES = "*"
"""Stands for every lane where limits are set: no lane is called so."""


class Notes(msgspec.Struct, omit_defaults=True, frozen=True):
    """What stands beside one job; a msgpack map of what is set.

    >>> Notes.decode(Notes(lane="tenant-7").encode())
    Notes(lane='tenant-7', dedup=None, flow=None, trace=None)
    """

    lane: str | None = None
    dedup: str | None = None
    flow: str | None = None
    """`<flow id>/<number of the node>`."""
    trace: dict[str, str] | None = None

    @property
    def node(self) -> tuple[str, str]:
        """The flow's id and the node's number; empty for a job of no flow."""
        flow, _, number = (self.flow or "").rpartition("/")
        return flow, number if flow else ""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @staticmethod
    def decode(data: bytes) -> Notes:
        """Never fails: notes that cannot be read are no notes, and the job runs."""
        try:
            return _decode(data)
        except msgspec.MsgspecError:
            return Notes()


_decode = msgspec.msgpack.Decoder(Notes).decode


def checked_lane(lane: object, *, all_allowed: bool = False) -> str:
    if not isinstance(lane, str) or not lane.strip() or (lane == ALL_LANES and not all_allowed):
        remedy = "Pass text that names what shares a turn, such as a tenant's id."
        raise BadArgument(argument="lane", value=lane, reason="not a valid name", remedy=remedy)
    return lane

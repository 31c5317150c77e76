"""A frame that this worker holds: many jobs in one entry, settled in one step when the last of them has come to its end.

Until then nothing is written for any of them. So a crash brings the whole frame back, and never a job of it twice: not once
in the frame and once as a retry. See docs/guarantees.md, "Frames".
"""

from __future__ import annotations

from relevo.engine.settling.delivery import Delivery, Frame
from relevo.wire.frame import FramedJob


def unpacked(entry: Delivery, jobs: list[FramedJob]) -> list[Delivery]:
    """A delivery for each job of a frame. Their lease, and whether it is lost, is the entry's."""
    frame = Frame(entry, len(jobs))
    entry_id, before, leased_at = entry.entry_id, entry.before, entry.leased_at
    return [Delivery(entry_id, job.envelope, job.name, before, leased_at, frame=frame) for job in jobs]


def whole_entries(deliveries: list[Delivery]) -> tuple[list[Delivery], list[Delivery]]:
    """What can be handed back as it came, and the jobs that have to leave their frame for it: others of it have begun."""
    whole: dict[bytes, Delivery] = {}
    leaving: list[Delivery] = []
    for delivery in deliveries:
        if delivery.frame is None:
            whole[delivery.entry_id] = delivery
        elif delivery.frame.begun:
            leaving.append(delivery)
        else:
            whole[delivery.entry_id] = delivery.frame.delivery
    return list(whole.values()), leaving

"""A frame that this worker holds: many jobs in one entry, settled in one step when the last of them has come to its end.

Until then nothing is written for any of them. So a crash brings the whole frame back, and never a job of it twice: not once
in the frame and once as a retry. See docs/guarantees.md, "Frames".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from relevo.broker.resp import Argument
from relevo.engine.delivery import Delivery
from relevo.wire.frame import FramedJob

if TYPE_CHECKING:
    from relevo.engine.events import Telling
    from relevo.engine.outcomes import Burial, Done, Parking, Retry


class Frame:
    """The jobs of one entry, and what became of them. `delivery` is the entry itself: it has the lease for all of them."""

    __slots__ = ("back", "begun", "burials", "delivery", "done", "events", "left", "parkings", "results", "retries")

    def __init__(self, delivery: Delivery, jobs: int) -> None:
        self.delivery = delivery
        self.left = jobs
        """Jobs that have not come to their end."""
        self.begun = False
        """Whether one of them has started: from then on the entry cannot be handed back as it came."""
        self.done = 0
        self.results: list[Done] = []
        self.retries: list[Retry] = []
        self.parkings: list[Parking] = []
        self.burials: list[Burial] = []
        self.back: list[Delivery] = []
        """Jobs that did not run here: they go on as entries of their own."""
        self.events: list[bytes | Telling] = []
        """What may be said once the frame is settled."""

    def arguments(self) -> list[Argument]:
        """As `settle_frames.lua` takes them."""
        later = len(self.retries) + len(self.parkings)
        packed: list[Argument] = [self.delivery.entry_id, len(self.results), later, len(self.burials), len(self.back)]
        for done in self.results:
            packed += (done.delivery.envelope.id, done.result)
        for retry in self.retries:
            packed += (retry.wait_ms, retry.member, retry.delivery.envelope.id, retry.failure)
        for parking in self.parkings:
            packed += (parking.wait_ms, parking.member, "", "")
        for burial in self.burials:
            fields = burial.letter.encode()
            packed += (len(fields), *fields)
        for delivery in self.back:
            packed += (delivery.envelope.encode(), delivery.name)
        return packed


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

"""Named points between the steps of publish, claim and settle, where a test lets the process die.

In production nothing is armed and a point costs one comparison. `RELEVO_FAULT=publish.committed:kill` in the environment of a
process makes it kill itself (SIGKILL, as a power cut would) when it comes there; a test in the same process may `arm` a
function instead. `POINTS` is the whole list: a test walks every one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

POINTS = (
    "publish.begun",  # the transaction is open, nothing is written
    "publish.written",  # every row is written, the commit is not
    "publish.committed",  # the rows are on disk, the index does not know
    "publish.indexed",  # the index knows, the caller does not
    "claim.taken",  # ids are out of the index, no row is changed
    "claim.begun",
    "claim.written",
    "claim.committed",  # the rows are claimed, the index still lists them as being taken
    "claim.indexed",
    "settle.begun",
    "settle.written",
    "settle.committed",
    "settle.indexed",
    "rebuild.begun",  # the new index has its mark and no members
    "rebuild.paged",  # one page is in it
    "rebuild.scanned",  # all pages are in it, it is not in its place
)

AGENT_POINTS = (
    "relay.sent",  # events are in their streams, and still in the outbox
    "archive.copied",  # messages are in the archive, and still among the live ones
    "search.taken",  # messages are out of the search feed, and not in the search table
    "search.written",  # they are in the table, the commit is not
    "fold.added",  # the tallies of a past day are in their sum, and still there themselves
    "replay.moved",  # dead letters are back in their queues, the replay does not know
)
"""The same for agents; tests/agents/test_kills.py walks these."""

ROUTING_POINTS = (
    "route.decided",  # the rules were asked, nothing is written
    "route.written",  # everything is written, the commit is not
    "bridge.added",  # the job is on its stream queue, its row does not know
    "bridge.heard",  # the job's outcome is known, the message does not know
    "bridge.settled",  # the message knows, the place in the events is not kept
    "bridge.replayed",  # a dead letter is back on its stream queue, its review does not know
)
"""The same for routing; tests/routing/test_kills.py walks these."""

PEOPLE_POINTS = (
    "review.begun",  # what somebody does with a review is about to be written
    "review.written",  # it is written with all that follows from it, the commit is not
    "review.committed",  # it is on disk, and nobody knows
    "webhook.taken",  # a delivery is ours, nothing is sent
    "webhook.sent",  # the receiver has it, its row does not know
    "erasure.erased",  # a batch is blank, the erasure does not know
    "erasure.forgotten",  # Redis holds nothing of it any more, the erasure does not know
)
"""The same for reviews, webhooks and erasures; tests/people/test_kills.py walks these."""

REQUEST_POINTS = (
    "request.done",  # what a request with an idempotency key asked for is on disk, its answer is not
)
"""The same for requests; tests/api/test_idempotency.py comes there."""

_armed: dict[str, Callable[[], None]] = {}


def fault(point: str) -> None:
    """Here a test may end the process."""
    if _armed and (act := _armed.get(point)) is not None:
        act()


def arm(point: str, act: Callable[[], None]) -> Callable[[], None]:
    """Has `act` called at a point until the returned function is called."""
    if point not in POINTS + AGENT_POINTS + ROUTING_POINTS + PEOPLE_POINTS + REQUEST_POINTS:
        raise AssertionError(f"there is no fault point {point!r}")
    _armed[point] = act
    return lambda: _armed.pop(point, None) and None


def arm_from_environment() -> None:
    """Arms what `RELEVO_FAULT` asks for: `point:kill`, or `point:kill:3` for the third time the process comes there."""
    wanted = os.environ.get("RELEVO_FAULT", "")
    if not wanted:
        return
    point, _, how = wanted.partition(":")
    visits_left = int(how.partition(":")[2] or 1)

    def die() -> None:
        nonlocal visits_left
        visits_left -= 1
        if visits_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    arm(point, die)

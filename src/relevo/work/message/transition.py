"""The life of a message as a table: each change of state there is, and all that goes with it.

`apply` (lifecycle.py) does what a line says: rows, depths, usage, events, history, order and audit. Publishing, claiming and
completing are done to thousands at once by statements of their own, which take the same from the same lines. A delivery of a
broadcast queue goes by these lines too. A test goes through the table and looks whether all of it agrees.
"""

from __future__ import annotations

from typing import NamedTuple

from relevo.contract.events import EventName
from relevo.contract.messages import State
from relevo.work.store.counters import CounterDelta

NEW: frozenset[State] = frozenset()
"""Before a message is there."""
WAITING: frozenset[State] = frozenset({"pending", "delayed"})
CLAIMED: frozenset[State] = frozenset({"claimed"})
IN_REVIEW: frozenset[State] = frozenset({"in_review"})
DEAD: frozenset[State] = frozenset({"dead"})
UNCLAIMED = WAITING | IN_REVIEW | DEAD
UNFINISHED = UNCLAIMED | CLAIMED
"""Dead letters wait for a decision."""

AMOUNTS = frozenset({"handler_ms", "published_bytes"})
"""Usage that is not counted but added up."""


class Transition(NamedTuple):
    """One line of the table. What is empty is not written."""

    name: str
    before: frozenset[State]
    after: State | None
    """None: it stays in its state."""
    action: str = ""
    """In the audit."""
    history: str = ""
    events: tuple[EventName, ...] = ()
    usage: tuple[str, ...] = ()
    """Columns of the tallies, in the queue where the message is worked on."""
    attempts: int = 0
    reclaims: int = 0
    """What is added to the row's."""

    @property
    def event(self) -> EventName:
        return self.events[0]

    def add_to(self, counters: CounterDelta, queue_id: int, before: State | None, count: int) -> None:
        """Depths and usage of so many messages at once that stay in their queue; `AMOUNTS` are the caller's."""
        counters.moved(queue_id, before, self.after, count)
        for name in self.usage:
            if name not in AMOUNTS:
                counters.add(queue_id, name, count)


# --- the usual way -----------------------------------------------------------------------------------------------------

PUBLISH = Transition(
    "publish",
    NEW,
    "pending",
    action="message.publish",
    history="published",
    events=("published",),
    usage=("published", "published_bytes"),
)
PUBLISH_DELAYED = PUBLISH._replace(name="publish_delayed", after="delayed")
CLAIM = Transition(
    "claim",
    frozenset({"pending"}),
    "claimed",
    action="message.claim",
    history="claimed",
    events=("claimed",),
    usage=("claims",),
    attempts=1,
)
EXTEND = Transition("extend", CLAIMED, None, action="message.extend", history="extended", events=("extended",))
COMPLETE = Transition(
    "complete",
    CLAIMED,
    "completed",
    action="message.complete",
    history="completed",
    events=("completed",),
    usage=("completed", "handler_ms"),
)
REPRIORITISE = Transition("reprioritise", WAITING, None, action="message.change", history="changed")

# --- back into the queue -----------------------------------------------------------------------------------------------

RELEASE = Transition(
    "release",
    CLAIMED,
    "pending",
    action="message.release",
    history="released",
    events=("released",),
    usage=("released",),
    attempts=-1,
)
RETRY = Transition(
    "retry",
    CLAIMED,
    "delayed",
    action="message.fail",
    history="failed",
    events=("failed", "retried"),
    usage=("failed", "retried", "handler_ms"),
)
RETRY_AT_ONCE = RETRY._replace(name="retry_at_once", after="pending")

# --- ends --------------------------------------------------------------------------------------------------------------

CANCEL = Transition(
    "cancel",
    UNCLAIMED,
    "cancelled",
    action="message.cancel",
    history="cancelled",
    events=("cancelled",),
    usage=("cancelled",),
)
BURY = Transition(
    "bury",
    WAITING,
    "dead",
    action="message.bury",
    history="dead_lettered",
    events=("dead_lettered",),
    usage=("dead_lettered",),
)
GIVE_UP = BURY._replace(
    name="give_up",
    before=CLAIMED,
    action="message.fail",
    events=("failed", "dead_lettered"),
    usage=("failed", "dead_lettered", "handler_ms"),
)

TRANSITIONS: tuple[Transition, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Transition))

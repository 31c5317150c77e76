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
PROMOTE = Transition("promote", frozenset({"delayed"}), "pending")
"""Nobody does it, and the time was told before."""
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
AGE = REPRIORITISE._replace(name="age", before=frozenset({"pending"}), action="message.age", history="aged")

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
RECLAIM = Transition(
    "reclaim",
    CLAIMED,
    "pending",
    action="message.reclaim",
    history="reclaimed",
    events=("reclaimed",),
    usage=("reclaimed",),
    reclaims=1,
)
REPLAY = Transition(
    "replay",
    DEAD,
    "pending",
    action="message.replay",
    history="replayed",
    events=("replayed",),
    usage=("replayed",),
)

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
LOSE = BURY._replace(name="lose", before=CLAIMED, action="message.reclaim", reclaims=1)
EXPIRE = Transition(
    "expire",
    WAITING,
    "expired",
    action="message.expire",
    history="expired",
    events=("expired",),
    usage=("expired",),
)
BURY_EXPIRED = BURY._replace(
    name="bury_expired",
    action="message.expire",
    events=("expired", "dead_lettered"),
    usage=("expired", "dead_lettered"),
)
ERASE = CANCEL._replace(name="erase", before=UNFINISHED, action="message.erase", history="erased")

# --- as jobs of a stream queue, which claims them for as long as it takes ------------------------------------------------

SEND_AGAIN = Transition("send_again", CLAIMED, None, action="message.send", history="sent_again")
RETRY_AS_JOB = RETRY._replace(name="retry_as_job", after="claimed", attempts=1)
REPLAY_AS_JOB = REPLAY._replace(name="replay_as_job", after="claimed", attempts=1)

# --- by people -----------------------------------------------------------------------------------------------------------

REVIEW = Transition(
    "review", DEAD, "in_review", action="message.review", history="review_needed", events=("review_needed",)
)
DECIDE = Transition(
    "decide",
    IN_REVIEW,
    "completed",
    action="message.decide",
    history="review_decided",
    events=("review_decided", "completed"),
    usage=("completed", "reviews"),
)
REJECT = DECIDE._replace(
    name="reject", after="cancelled", events=("review_decided", "cancelled"), usage=("cancelled", "reviews")
)
WITHDRAW = REJECT._replace(name="withdraw", history="review_withdrawn")
FAIL_REVIEW = DECIDE._replace(
    name="fail_review",
    after="failed",
    history="review_failed",
    events=("review_decided", "failed"),
    usage=("failed", "reviews"),
)
LEAVE_DEAD = DECIDE._replace(name="leave_dead", after="dead", events=("review_decided",), usage=("reviews",))
"""A dead letter that people approved of, which is then replayed, or that nobody decided over."""
CORRECT = LEAVE_DEAD._replace(name="correct", history="corrected")

# --- of a broadcast queue, by what its deliveries come to ------------------------------------------------------------------

FINISH = Transition(
    "finish", WAITING, "completed", action="message.complete", history="completed", usage=("completed",)
)
"""Its deliveries have told."""
FINISH_UNHEARD = FINISH._replace(name="finish_unheard", before=frozenset({"pending"}), events=("completed",))
FINISH_FAILED = FINISH._replace(name="finish_failed", after="failed", history="failed", usage=())
REOPEN = Transition("reopen", frozenset({"completed", "failed"}), "pending", history="reopened")
"""For a subscription that begins in the past, whose entry in the audit says for how many."""

TRANSITIONS: tuple[Transition, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Transition))

# --- a delivery of it ------------------------------------------------------------------------------------------------------

CLAIM_DELIVERY = CLAIM._replace(name="claim_delivery", history="")
"""All subscriptions write into one history: what every delivery goes through is not told there."""
DELIVER = COMPLETE._replace(name="deliver", history="", usage=("handler_ms",))
"""The message is completed, and counted, when its last delivery is."""

OF_DELIVERIES = (
    PROMOTE,
    CLAIM_DELIVERY,
    EXTEND,
    DELIVER,
    RELEASE,
    RETRY,
    RETRY_AT_ONCE,
    RECLAIM,
    GIVE_UP,
    LOSE,
)

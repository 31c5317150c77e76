"""A review in progress: who holds it, who has decided what, and what comes next. Pure: rows and clocks are elsewhere.

The whole case is one JSON document in one row with a version; a change is written only over the version it was read from, so
two people who act at the same moment cannot both be right.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from relevo.contract.reviews import CaseState, Note, Vote
from relevo.errors import BadDecision, NotYourReview, ReviewHeld, ReviewOver
from relevo.work.review.spec import ReviewSpec


class Case(msgspec.Struct, kw_only=True):
    """One review.

    >>> case = Case.open("r1", ReviewSpec(), now_ms=0)
    >>> case.claim("ada", 10)
    >>> case.decide("ada", {"decision": "approve"}, 20)
    True
    >>> case.state, case.outcome
    ('decided', {'decision': 'approve'})
    """

    id: str
    spec: ReviewSpec
    state: CaseState = "waiting"
    opened_at: int
    due_at: int | None = None
    remind_at: int | None = None
    assignees: list[str]
    escalations: int = 0
    holder: str | None = None
    held_until: int | None = None
    votes: list[Vote] = []
    notes: list[Note] = []
    outcome: dict[str, Any] | None = None
    corrected_body: Any = None
    reason: str | None = None
    finished_at: int | None = None

    @staticmethod
    def open(review: str, spec: ReviewSpec, now_ms: int) -> Case:
        return Case(
            id=review,
            spec=spec,
            opened_at=now_ms,
            due_at=None if spec.timeout_s is None else now_ms + spec.timeout_s * 1000,
            remind_at=None if spec.remind_s is None else now_ms + spec.remind_s * 1000,
            assignees=list(spec.assignees),
            votes=[],
            notes=[],
        )

    @property
    def over(self) -> bool:
        return self.state in ("decided", "failed", "withdrawn")

    # --- what people do --------------------------------------------------------------------------------------------

    def claim(self, person: str, now_ms: int) -> None:
        """Takes it into one's hands; again by the same person only makes it longer."""
        self._must_be_open()
        self._let_go_of_what_lapsed(now_ms)
        self._may_decide(person, "claimed")
        if self.holder not in (None, person):
            raise ReviewHeld(review=self.id, holder=self.holder, until=self.held_until)
        if self.holder is None:
            self._note(now_ms, person, "claimed")
        self.state, self.holder = "held", person
        self.held_until = now_ms + self.spec.hold_s * 1000

    def release(self, person: str, now_ms: int) -> None:
        self._must_be_open()
        self._must_hold(person, now_ms, "released")
        self._let_go()
        self._note(now_ms, person, "released")

    def hand_over(self, person: str, to: str, now_ms: int) -> None:
        """From the one who holds it to another who may decide."""
        self._must_be_open()
        self._must_hold(person, now_ms, "handed over")
        self._may_decide(to, "handed over to and decided")
        self.holder, self.held_until = to, now_ms + self.spec.hold_s * 1000
        self._note(now_ms, person, "handed over", to)

    def comment(self, person: str, text: str, now_ms: int) -> None:
        """Anyone who may see it may say something; a review that is over keeps its record as it is."""
        self._must_be_open()
        if not text.strip():
            raise BadDecision(reason="a comment needs a text")
        self._note(now_ms, person, "commented", text)

    def decide(self, person: str, given: dict[str, Any], now_ms: int, *, corrected_body: Any = None) -> bool:
        """Answers it; true when this answer made the quorum and the review is decided.

        It need not be claimed first, but nobody decides over the head of the one who holds it.
        """
        self._must_be_open()
        self._let_go_of_what_lapsed(now_ms)
        self._may_decide(person, "decided")
        if self.holder not in (None, person):
            raise ReviewHeld(review=self.id, holder=self.holder, until=self.held_until)
        if corrected_body is not None and not self.spec.may_correct:
            raise BadDecision(reason="the body may not be corrected in this review")
        answer = self.spec.answer(given)
        self.votes.append(Vote(person, now_ms, answer, corrected_body))
        self._note(now_ms, person, "decided", str(answer[self.spec.decision.field]))
        self._let_go()
        return self._counted(now_ms)

    def withdraw(self, person: str, reason: str, now_ms: int) -> None:
        """Nobody needs the answer any more."""
        self._must_be_open()
        self._note(now_ms, person, "withdrawn", reason)
        self._end("withdrawn", now_ms, reason)

    # --- what the clock does ---------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> Literal["nothing", "freed", "reminded", "escalated", "completed", "failed"]:
        """What is due now: a lapsed hold, a reminder, or the time-out. One thing at a time, the weightiest first."""
        if self.over:
            return "nothing"
        if self.due_at is not None and now_ms >= self.due_at:
            return self._timed_out(now_ms)
        if self._let_go_of_what_lapsed(now_ms):
            return "freed"
        if self.remind_at is not None and now_ms >= self.remind_at:
            self._note(now_ms, "", "reminded", ", ".join(self.assignees))
            self.remind_at = now_ms + (self.spec.remind_s or 0) * 1000
            return "reminded"
        return "nothing"

    def next_tick_at(self) -> int | None:
        """When `tick` has something to do."""
        if self.over:
            return None
        times = (self.due_at, self.remind_at, self.held_until)
        return min((time for time in times if time is not None), default=None)

    def _timed_out(self, now_ms: int) -> Literal["escalated", "completed", "failed"]:
        further = self.spec.escalate_to
        if self.spec.on_timeout == "escalate" and further is not None and self.escalations == 0:
            self.escalations = 1
            self.assignees = list(further.assignees)
            self.due_at = None if further.timeout_s is None else now_ms + further.timeout_s * 1000
            self._let_go()
            self._note(now_ms, "", "escalated", ", ".join(self.assignees))
            return "escalated"
        if self.spec.on_timeout == "complete" and self.spec.default is not None:
            self.outcome = self.spec.answer(self.spec.default)
            self._note(now_ms, "", "timed out", "the default answer was taken")
            self._end("decided", now_ms, "timed_out")
            return "completed"
        self._note(now_ms, "", "timed out")
        self._end("failed", now_ms, "timed_out")
        return "failed"

    # --- inside ----------------------------------------------------------------------------------------------------

    def _counted(self, now_ms: int) -> bool:
        field = self.spec.decision.field
        tally: dict[str, list[Vote]] = {}
        for vote in self.votes:
            tally.setdefault(vote.answer[field], []).append(vote)
        for votes in tally.values():
            if len(votes) >= self.spec.quorum:
                self.outcome = votes[-1].answer
                self.corrected_body = next(
                    (vote.corrected_body for vote in reversed(votes) if vote.corrected_body is not None), None
                )
                self._end("decided", now_ms, None)
                return True
        waiting = set(self.assignees) - {vote.person for vote in self.votes}
        if self.assignees and max(map(len, tally.values())) + len(waiting) < self.spec.quorum:
            self._note(now_ms, "", "no agreement", "no decision can reach the quorum any more")
            self._end("failed", now_ms, "no_agreement")
        return False

    def _must_be_open(self) -> None:
        if self.over:
            raise ReviewOver(review=self.id, state=self.state)

    def _may_decide(self, person: str, done: str) -> None:
        if self.assignees and person not in self.assignees:
            reason = f"it is for {', '.join(self.assignees)}"
        elif any(vote.person == person for vote in self.votes):
            reason = "they have decided already"
        else:
            return
        raise NotYourReview(review=self.id, done=done, person=person, reason=reason)

    def _must_hold(self, person: str, now_ms: int, done: str) -> None:
        self._let_go_of_what_lapsed(now_ms)
        if self.holder != person:
            reason = "nobody holds it" if self.holder is None else f"{self.holder!r} holds it"
            raise NotYourReview(review=self.id, done=done, person=person, reason=reason)

    def _let_go_of_what_lapsed(self, now_ms: int) -> bool:
        if self.held_until is None or now_ms < self.held_until:
            return False
        self._note(now_ms, self.holder or "", "hold lapsed")
        self._let_go()
        return True

    def _let_go(self) -> None:
        self.holder, self.held_until = None, None
        if not self.over:
            self.state = "waiting"

    def _end(self, state: CaseState, now_ms: int, reason: str | None) -> None:
        self.holder, self.held_until = None, None
        self.state, self.reason, self.finished_at = state, reason, now_ms

    def _note(self, at: int, person: str, did: str, text: str = "") -> None:
        self.notes.append(Note(at, person, did, text))

"""Drives a review by people and by the clock in any order. Whatever they do, it is held by one at most and ends once."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from relevo.errors import BadDecision, NotYourReview, ReviewHeld, ReviewOver
from relevo.work.review.case import Case
from relevo.work.review.spec import ReviewSpec
from tests.support.review_specs import person, specs

REFUSED = (BadDecision, NotYourReview, ReviewHeld, ReviewOver)


class ReviewMachine(RuleBasedStateMachine):
    """A case, and beside it a plain account of what must be true."""

    @initialize(spec=specs())
    def open(self, spec: ReviewSpec) -> None:
        self.now = 1_000
        self.case = Case.open("r1", spec, self.now)
        self.ended: tuple[Any, ...] | None = None
        self.votes: list[tuple[str, str]] = []

    def ending(self) -> tuple[Any, ...]:
        return (self.case.state, self.case.outcome, self.case.reason, self.case.finished_at)

    def try_to(self, act: Any, *arguments: Any) -> bool:
        before = len(self.case.votes)
        try:
            act(*arguments, self.now)
        except REFUSED:
            assert len(self.case.votes) == before, "a refused act left a vote behind"
            return False
        return True

    @rule(who=person)
    def claim(self, who: str) -> None:
        holder = self.case.holder if self.held_now() else None
        if self.try_to(self.case.claim, who):
            assert holder in (None, who), "taken out of somebody's hands"
            assert self.case.holder == who

    @rule(who=person)
    def release(self, who: str) -> None:
        held = self.case.holder == who and self.held_now()
        assert self.try_to(self.case.release, who) == (held and self.ended is None)

    @rule(who=person, to=person)
    def hand_over(self, who: str, to: str) -> None:
        if self.try_to(self.case.hand_over, who, to):
            assert self.case.holder == to

    @rule(who=person, answer=st.sampled_from(["approve", "reject", "nonsense"]))
    def decide(self, who: str, answer: str) -> None:
        held_by_another = self.held_now() and self.case.holder != who
        if self.try_to(self.case.decide, who, {"decision": answer}):
            assert not held_by_another, "decided over the holder's head"
            assert answer != "nonsense"
            self.votes.append((who, answer))

    @rule(who=person, text=st.sampled_from(["why?", "  "]))
    def comment(self, who: str, text: str) -> None:
        self.try_to(self.case.comment, who, text)

    @rule(seconds=st.integers(0, 60))
    def wait(self, seconds: int) -> None:
        self.now += seconds * 1000
        for _ in range(10):
            if self.case.tick(self.now) == "nothing":
                return
        pytest.fail("the clock never comes to rest")

    def held_now(self) -> bool:
        return self.case.held_until is not None and self.now < self.case.held_until

    @invariant()
    def it_ends_once_and_stays_ended(self) -> None:
        if self.ended is not None:
            assert self.ending() == self.ended
        elif self.case.over:
            self.ended = self.ending()
            assert self.case.holder is None
            assert self.case.next_tick_at() is None

    @invariant()
    def nobody_decides_twice(self) -> None:
        people = [vote.person for vote in self.case.votes]
        assert len(people) == len(set(people))
        assert [(vote.person, vote.answer["decision"]) for vote in self.case.votes] == self.votes

    @invariant()
    def a_decision_has_its_quorum_or_the_clock(self) -> None:
        if self.case.state == "decided" and self.case.reason is None:
            outcome = self.case.outcome
            assert outcome is not None
            agreeing = [who for who, answer in self.votes if answer == outcome["decision"]]
            assert len(agreeing) == self.case.spec.quorum

    @invariant()
    def held_and_holder_go_together(self) -> None:
        assert (self.case.state == "held") == (self.case.holder is not None) == (self.case.held_until is not None)

    def teardown(self) -> None:
        if not hasattr(self, "case") or self.case.spec.timeout_s is None:
            return
        for _ in range(200):  # with a time-out it always ends, whoever sleeps
            at = self.case.next_tick_at()
            if at is None:
                break
            self.now = max(self.now, at)
            self.case.tick(self.now)
        assert self.case.over


TestReviewMachine = ReviewMachine.TestCase
TestReviewMachine.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)

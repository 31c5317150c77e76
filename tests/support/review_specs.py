"""Reviews of every kind that may be asked for, as hypothesis draws them, and the people in them."""

from typing import Any

from hypothesis import strategies as st

from relevo.work.review.spec import Escalation, ReviewSpec

PEOPLE = ["ada", "grace", "mary", "emmy"]
person = st.sampled_from(PEOPLE)


@st.composite
def specs(draw: st.DrawFn) -> ReviewSpec:
    quorum = draw(st.integers(1, 3))
    assignees = draw(st.lists(person, unique=True, min_size=quorum)) if draw(st.booleans()) else []
    timeout: dict[str, Any] = {}
    if draw(st.booleans()):
        timeout["timeout_s"] = draw(st.integers(5, 100))
        timeout["on_timeout"] = draw(st.sampled_from(["fail", "escalate", "complete"]))
        if timeout["on_timeout"] == "complete":
            timeout["default"] = {"decision": "reject"}
        if timeout["on_timeout"] == "escalate":
            timeout["escalate_to"] = Escalation(assignees=PEOPLE, timeout_s=draw(st.integers(5, 50)))
    remind = draw(st.none() | st.integers(1, 30))
    return ReviewSpec(
        quorum=quorum, assignees=assignees, remind_s=remind, hold_s=draw(st.integers(1, 40)), **timeout
    ).checked()

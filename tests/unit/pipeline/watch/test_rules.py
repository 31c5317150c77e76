"""Which rule is whose."""

import pytest

from relevo.errors import BadArgument
from relevo.pipeline.lake.gold.objectives import Objective
from relevo.pipeline.watch.rules import QueueRules, Rules, TimeLimit


def test_the_first_rule_that_names_a_queue_counts() -> None:
    limits = (TimeLimit("mail-*", 5_000), TimeLimit("*", 9_000))
    rules = Rules(stuck=limits, overdue=limits[:1], objectives=(Objective("mail-a"),), burn=3.0)
    assert rules.of("mail-a") == QueueRules(5_000, 5_000, None, Objective("mail-a"), 3.0)
    assert rules.of("other") == QueueRules(9_000, None, None, None, 3.0)


@pytest.mark.parametrize("text", ["mail", "mail=", "mail=soon", "mail=0", "=5", "mail=-1"])
def test_a_limit_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match="--stuck"):
        TimeLimit.parse("--stuck", text)


@pytest.mark.parametrize(("shortest_ms", "tick_ms"), [(100, 1_000), (60_000, 3_000), (86_400_000, 60_000)])
def test_times_are_kept_as_exactly_as_the_shortest_limit_needs(shortest_ms: int, tick_ms: int) -> None:
    assert QueueRules(stuck_ms=shortest_ms).tick_ms == tick_ms

"""A goal and what came of it, and how a report says so. Of work queues and of the pipeline alike."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """A goal and what came of it; `reached` is None when this run did not measure it, `wanted` when any figure will do."""

    store: str
    name: str
    title: str
    wanted: float | None
    reached: float | None
    less_is_better: bool = False

    @property
    def met(self) -> bool | None:
        if self.reached is None or self.wanted is None:
            return None
        return self.reached <= self.wanted if self.less_is_better else self.reached >= self.wanted

    @property
    def cells(self) -> str:
        """Wanted, reached and the verdict, for a line of a table."""
        reached = "not measured" if self.reached is None else figure(self.reached)
        return f"{self.bound} | {reached} | {self._verdict}"

    @property
    def bound(self) -> str:
        """What is wanted, in words."""
        return "-" if self.wanted is None else f"{'≤' if self.less_is_better else '≥'} {self.wanted:,g}"

    @property
    def _verdict(self) -> str:
        if self.reached is None or self.wanted is None:
            return ""
        how_far = self.wanted / self.reached if self.less_is_better else self.reached / self.wanted
        return "met" if self.met else f"**not met**, {how_far:.0%} of the way"


def figure(value: float) -> str:
    """A ratio, milliseconds or a rate, as long as it has to be."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def in_the_way(remarks: list[tuple[str, str]]) -> list[str]:
    """What stands in the way of goals: title and remark of each that was not met."""
    told = [f"- **{title}**: {' '.join(remark.split())}" for title, remark in remarks]
    return ["What stands in the way of those not met:", "", *told, ""] if told else []

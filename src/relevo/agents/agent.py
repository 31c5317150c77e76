"""What every system agent is: a name, a beat, and one bounded batch of work that may run twice at once without harm."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Batch(NamedTuple):
    """What one batch did: how many items, and whether more are waiting."""

    items: int
    more: bool = False


class Agent(Protocol):
    """One agent. `work` does one batch in transactions of its own: whatever is killed in the middle of it, the next batch,
    here or elsewhere, goes on from the rows as they are."""

    @property
    def name(self) -> str: ...

    @property
    def every_s(self) -> float:
        """Its beat; None of it is promised to the second."""
        ...

    @property
    def about(self) -> str:
        """What it does, in one line, for those who list the agents."""
        ...

    async def work(self) -> Batch: ...

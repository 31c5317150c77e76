"""The leases that this process gave out, so that a settle need not ask for them.

A lease is written once, so what is noted here of one stays true. What of it is settled was committed: the lease's row may go
when nothing is left. A message that another process has settled, or that was ended otherwise, is not known of here: the
statement that settles it asks its row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping

from relevo.work.store.interface import Session
from relevo.work.store.lease import Lease

_MOST_MESSAGES = 100_000

Told = tuple[int, str, str]
"""What the events of a claimed message say of it: its attempts, its type, its correlation."""


class GivenLease:
    """A lease of this process."""

    __slots__ = ("claim_no", "lease", "left", "queue", "told")

    def __init__(self, lease: Lease, queue: str, told: dict[str, Told]) -> None:
        self.lease = lease
        self.queue = queue
        """The slug of its queue."""
        self.told = told
        self.left = set(told)
        """What is not settled yet, as far as this process knows."""
        numbers = set(lease.claims.values())
        self.claim_no = numbers.pop() if len(numbers) == 1 else None
        """Of all its messages; None if they differ."""


class LeaseBook:
    """Used by the loop, and by transactions in a driver's thread: each step is one that both may take at once."""

    def __init__(self) -> None:
        self._given: OrderedDict[str, GivenLease] = OrderedDict()
        self._over: list[str] = []
        """Leases that are empty and still have a row: the next settle takes it along."""
        self._messages = 0

    def note(self, given: Iterable[GivenLease]) -> None:
        """Leases that are committed."""
        for each in given:
            self._given[each.lease.token] = each
            self._messages += len(each.told)
        while self._messages > _MOST_MESSAGES:
            self._forget(next(iter(self._given)))

    def given(self, token: str) -> GivenLease | None:
        return self._given.get(token)

    async def of(self, session: Session, tokens: Collection[str]) -> dict[str, Lease]:
        """Those of these leases that there are or were, by their tokens."""
        found = {token: given.lease for token in tokens if (given := self._given.get(token)) is not None}
        missing = [token for token in dict.fromkeys(tokens) if token not in found and len(token) == _TOKEN]
        if missing:
            for lease in await session.leases(missing):
                found[lease.token] = lease
        return found

    def empty_after(self, settled: Mapping[str, Collection[str]], leases: Mapping[str, Lease]) -> list[str]:
        """The leases that hold nothing more once these messages of theirs, by token, are settled too."""
        now_empty = [token for token, ids in settled.items() if self._left(token, leases).issubset(ids)]
        return [*now_empty, *self._over]

    def _left(self, token: str, leases: Mapping[str, Lease]) -> set[str]:
        given = self._given.get(token)
        return set(leases[token].claims) if given is None else given.left

    def settled(self, settled: Mapping[str, Collection[str]], dropped: Collection[str]) -> None:
        """These messages are settled, and these leases gone; it is committed."""
        for token, ids in settled.items():
            given = self._given.get(token)
            if given is None:
                continue
            given.left.difference_update(ids)
            if not given.left and token not in dropped:  # another transaction settled the rest at the same time
                self._over.append(token)
        for token in dropped:
            self._forget(token)
            if token in self._over:
                self._over.remove(token)

    def _forget(self, token: str) -> None:
        given = self._given.pop(token, None)
        if given is not None:
            self._messages -= len(given.told)


_TOKEN = 26

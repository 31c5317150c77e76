"""The leases that this process gave out or has looked up, so that a settle need not ask for them.

A lease is written once, so what is noted here of one stays true. Whether it still holds a message is not noted: the message's
row says that, to the statement that settles it. What is noted as settled was committed: the lease's row may go when nothing is
left.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping

from relevo.work.store.interface import Session
from relevo.work.store.lease import Lease

_MOST_MESSAGES = 100_000


class LeaseBook:
    """Used by the loop, and by transactions in a driver's thread: each step is one that both may take at once."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Lease] = OrderedDict()
        self._left: dict[str, frozenset[str]] = {}
        self._over: list[str] = []
        """Leases that are empty and still have a row: the next settle takes it along."""
        self._messages = 0

    def note(self, leases: Iterable[Lease]) -> None:
        """Leases that are committed."""
        for lease in leases:
            if lease.token not in self._known:
                self._known[lease.token] = lease
                self._left[lease.token] = frozenset(lease.claims)
                self._messages += len(lease.claims)
        while self._messages > _MOST_MESSAGES:
            self._forget(next(iter(self._known)))

    async def of(self, session: Session, tokens: Collection[str]) -> dict[str, Lease]:
        """Those of these leases that there are or were, by their tokens."""
        found = {token: lease for token in tokens if (lease := self._known.get(token)) is not None}
        missing = [token for token in dict.fromkeys(tokens) if token not in found and len(token) == _TOKEN]
        if missing:
            for lease in await session.leases(missing):
                found[lease.token] = lease
        return found

    def empty_after(self, settled: Mapping[str, Collection[str]], leases: Mapping[str, Lease]) -> list[str]:
        """The leases that hold nothing more once these messages of theirs, by token, are settled too."""
        now_empty = [
            token for token, ids in settled.items() if self._left.get(token, leases[token].claims.keys()) <= set(ids)
        ]
        return [*now_empty, *self._over]

    def settled(self, settled: Mapping[str, Collection[str]], dropped: Collection[str]) -> None:
        """These messages are settled, and these leases gone; it is committed."""
        for token, ids in settled.items():
            left = self._left.get(token)
            if left is None:
                continue
            left -= frozenset(ids)
            self._left[token] = left
            if not left and token not in dropped:  # the rest of it was settled by another transaction at the same time
                self._over.append(token)
        for token in dropped:
            self._forget(token)
            if token in self._over:
                self._over.remove(token)

    def _forget(self, token: str) -> None:
        lease = self._known.pop(token, None)
        if lease is not None:
            del self._left[token]
            self._messages -= len(lease.claims)


_TOKEN = 26

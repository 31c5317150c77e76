"""Job names as labels: a program that puts an order's number into the name must not fill the memory of Prometheus."""

from __future__ import annotations

from relevo.arguments import positive

OTHER = "other"


class JobNames:
    """The first `limit` names of a queue are labels of their own, all later ones are "other".

    >>> names = JobNames(limit=2)
    >>> [names.label(name) for name in ("a", "b", "c", "a", "d")]
    ['a', 'b', 'other', 'a', 'other']
    """

    def __init__(self, limit: int) -> None:
        self._limit = positive("name_limit", limit, zero=True)
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) >= self._limit:
            return OTHER
        self._known.add(name)
        return name

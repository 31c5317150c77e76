"""Server-sent events, line by line: what a server tells over one long answer."""

from __future__ import annotations

import msgspec

from relevo.contract.events import Event


class EventLines:
    """Collects lines; an empty one ends an event.

    >>> lines = EventLines()
    >>> [lines.take(line) for line in ("id: 1-0", "event: completed", 'data: {"n":1}')]
    [None, None, None]
    >>> lines.take("")
    Event(name='completed', data={'n': 1}, place='1-0')
    """

    def __init__(self, place: str | None = None) -> None:
        self.place = place
        """Of the last event that had one: the next answer goes on after it."""
        self._begin()

    def _begin(self) -> None:
        self._name, self._data = "message", list[str]()
        self._id: str | None = None

    def take(self, line: str) -> Event | None:
        if line:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                self._name = value
            elif field == "data":
                self._data.append(value)
            elif field == "id":
                self._id = value
            return None  # a comment is a sign of life, `retry` is for browsers
        if not self._data:
            self._begin()
            return None
        self.place = self._id or self.place  # only now: one that broke off is to be told again
        told = Event(name=self._name, data=msgspec.json.decode("\n".join(self._data)), place=self._id)
        self._begin()
        return told

"""Tells relays of this process that a transaction was committed, so that its jobs need not wait for the next poll."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session


class CommitNotifier:
    """Calls its listeners after the commit of every session that was watched. Anything may notify them, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._watched: WeakSet[Session | Connection] = WeakSet()
        self._pending: WeakSet[Session | Connection] = WeakSet()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` at every commit until the returned function is called."""
        with self._lock:
            self._listeners.append(listener)
        return lambda: self._forget(listener)

    def notify(self) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()

    def notify_after_commit(self, place: Session | Connection) -> None:
        """Notifies once the transaction under way is committed. A rollback notifies nobody, or too early: that costs a look."""
        with self._lock:
            self._pending.add(place)
            if place in self._watched:
                return
            self._watched.add(place)
        if isinstance(place, Session):
            event.listen(place, "after_commit", self._session_committed)
        else:
            event.listen(place, "commit", self._connection_committing)

    def _session_committed(self, session: Any) -> None:
        # A savepoint's release comes here too: the jobs are then still invisible, and the real commit is yet to come.
        if not session.in_nested_transaction() and self._taken(session):
            self.notify()

    def _connection_committing(self, connection: Any) -> None:
        # SQLAlchemy has no event after a connection's commit, only this one right before: relays look more than once.
        if self._taken(connection):
            self.notify()

    def _taken(self, place: Session | Connection) -> bool:
        with self._lock:
            pending = place in self._pending
            self._pending.discard(place)
            return pending

    def _forget(self, listener: Callable[[], None]) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

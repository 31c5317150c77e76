"""Signals: something that happens now and then. Tests wait for them, metrics listen to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger("relevo.signals")


T = TypeVar("T")


class Signal(Generic[T]):
    """Something that happens now and then. Listeners are called at once; tests wait.

    >>> import asyncio
    >>> async def story() -> int:
    ...     promoted = Signal[int]()
    ...     waiting = asyncio.ensure_future(promoted.wait_for(lambda count: count > 1))
    ...     await asyncio.sleep(0)
    ...     promoted.emit(1)
    ...     promoted.emit(2)
    ...     return await waiting
    >>> asyncio.run(story())
    2
    """

    def __init__(self) -> None:
        self.count: int = 0
        self.last: T | None = None
        self.listened: bool = False
        """Whether anyone listens: lets a hot path spare itself making the value."""
        self._listeners: list[Callable[[T], None]] = []

    def emit(self, value: T) -> None:
        self.count += 1
        self.last = value
        for listener in tuple(self._listeners):
            try:
                listener(value)
            except KeyboardInterrupt:
                raise
            except BaseException:  # a listener's fault must never stop the duty it listens to
                log.exception("a listener of a signal failed")

    def listen(self, listener: Callable[[T], None]) -> Callable[[], None]:
        """Calls `listener` on every emit until the returned function is called."""
        self._listeners.append(listener)
        self.listened = True

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)
            self.listened = bool(self._listeners)

        return stop

    async def wait_for(self, wanted: Callable[[T], bool] = lambda _: True, *, timeout: float | None = None) -> T:
        """The next value that `wanted` accepts; `TimeoutError` when none comes within `timeout` seconds, if given."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def check(value: T) -> None:
            if not future.done() and wanted(value):
                future.set_result(value)

        stop = self.listen(check)
        try:
            async with asyncio.timeout(timeout):
                return await future
        finally:
            stop()

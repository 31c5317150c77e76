"""An add that has been called and not yet awaited. Like a coroutine it does nothing until somebody wants it done.

`asyncio.gather` makes a task of every coroutine it is given, and takes a future as it is: for a hundred adds at once the tasks
cost as much as the adds. But callers may also write `create_task(queue.add(...))` or `asyncio.run(queue.add(...))`, which
want a coroutine. So a `PendingAdd` is both, until it is clear as what it is used:

- awaited, or asked whether it is a future (`gather`, `ensure_future`, `shield`): it begins, and is a future from then on;
- given to a task: it begins with the task's first step, and goes on as the task's coroutine;
- dropped: nothing is added, and a warning says so, as for Python's own coroutines.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol, cast

from relevo.engine.job.job import Job

Entry = tuple[bytes, bytes]
"""Envelope and name, as they stand in the stream."""

_Future: Any = asyncio.Future
_steps_of = _Future.__await__


class AddWriter(Protocol):
    """Who writes an add once it is awaited: the queue's stream writer."""

    @property
    def queue(self) -> str: ...

    def begin(self, add: StartedAdd) -> None: ...


class StartedAdd(asyncio.Future[Job]):
    """Done when Redis has the job. To the writer it is a call of one entry."""

    __slots__ = ("_steps", "entries", "job", "writer")

    job: Job
    entries: tuple[Entry]
    writer: AddWriter
    _steps: Generator[Any, None, Job]

    @property
    def future(self) -> StartedAdd:
        return self

    def landed(self) -> None:
        if not self.done():
            self.set_result(self.job)

    def failed(self, error: Exception) -> None:
        if not self.done():
            self.set_exception(error)


class SteppedAdd(StartedAdd):
    """One that a task takes its steps through."""

    __slots__ = ()

    def send(self, value: Any, /) -> Any:
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        raise error[0]

    def close(self) -> None:
        """Nobody waits any more; the job is on its way all the same."""
        self.cancel()


class PendingAdd(StartedAdd):
    """One that has not begun. It becomes one of the two above by changing its class: they have the same fields."""

    __slots__ = ()

    # --- as a future ---------------------------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Job]:
        self.__class__ = StartedAdd  # pyright: ignore[reportAttributeAccessIssue]
        self.writer.begin(self)
        return _steps_of(self)

    def _asked_for_future(self) -> bool:
        self.__class__ = StartedAdd  # pyright: ignore[reportAttributeAccessIssue]
        self.writer.begin(self)
        return False

    # What `asyncio.isfuture` looks at, and nobody else before an await.
    _asyncio_future_blocking = property(_asked_for_future)  # pyright: ignore[reportAssignmentType]

    # --- as a coroutine ------------------------------------------------------------------------------------------------

    def send(self, value: Any, /) -> Any:
        self.__class__ = SteppedAdd  # pyright: ignore[reportAttributeAccessIssue]
        self.writer.begin(self)
        self._steps = _steps_of(self)
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        self.close()
        raise error[0]

    def close(self) -> None:
        self.__class__ = StartedAdd  # pyright: ignore[reportAttributeAccessIssue]
        self.cancel()

    def __del__(self) -> None:
        _warn(self.job.name, self.writer.queue)


class PendingCall(Coroutine[Any, Any, Job]):
    """An add that needs more than one step, as a coroutine that names itself when it is dropped."""

    __slots__ = ("_begun", "_coroutine", "_inner", "_name", "_queue")

    def __init__(self, coroutine: Coroutine[Any, Any, Job], name: object, queue: str) -> None:
        self._coroutine = self._inner = coroutine
        self._name = name
        self._queue = queue
        self._begun = False

    def around(self, more: Callable[[Coroutine[Any, Any, Job]], Coroutine[Any, Any, Job]]) -> PendingCall:
        """This add, awaited by a coroutine that does more."""
        self._coroutine = more(self._coroutine)
        return self

    def __await__(self) -> Generator[Any, Any, Job]:
        self._begun = True
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        self._begun = True
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._begun = True
        return cast("Any", self._coroutine).throw(*error)

    def close(self) -> None:
        self._begun = True
        self._coroutine.close()
        self._inner.close()

    def __del__(self) -> None:
        if not self._begun:
            self.close()  # they would warn too, and name neither job nor queue
            _warn(self._name, self._queue)


def _warn(name: object, queue: str) -> None:
    said = f"the add of job {name!r} to queue {queue!r} was never awaited: nothing was added"
    warnings.warn(said, RuntimeWarning, stacklevel=3)

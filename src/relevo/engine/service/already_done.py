"""A coroutine with nothing left to do, for calls that act at once and may be awaited all the same."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any


class AlreadyDone(Coroutine[Any, Any, None]):
    """A coroutine with nothing left to do: may be awaited, made a task of, or dropped without a warning."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()

    def send(self, _: object, /) -> Any:
        raise StopIteration

    def throw(self, *error: Any) -> Any:
        raise error[0]

    def close(self) -> None: ...

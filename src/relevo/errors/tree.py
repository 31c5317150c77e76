"""The root of all errors, and how a docstring becomes a message."""

from __future__ import annotations

import inspect
from typing import Any


class RelevoError(RuntimeError):
    """Something went wrong in relevo."""

    def __init__(self, **fields: object) -> None:
        self.fields = fields
        super().__init__(inspect.cleandoc(type(self).__doc__ or "").format(**fields))

    def __getattr__(self, name: str) -> Any:
        # Fields of the message are attributes too: `error.queue`, `error.cap`.
        fields: dict[str, object] = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.fields))


def _rebuild(kind: type[RelevoError], fields: dict[str, object]) -> RelevoError:
    return kind(**fields)

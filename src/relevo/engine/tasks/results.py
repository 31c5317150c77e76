"""What a task returns: made plain by its return annotation where it ran, read back where somebody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relevo.engine.tasks.annotations import Hints, value_of
from relevo.engine.tasks.values import Mismatch


class ReturnValue:
    """The result of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._value = value_of(Hints(function)["return"])
        self.plain: bool = self._value.plain
        """Results travel as they are."""

    def encode(self, value: Any) -> Any:
        """The plain form. A function that returns something else than it says has succeeded all the same: then the value is
        stored as it is, if it can be."""
        try:
            return self._value.encode(value)
        except Mismatch:
            return value

    def decode(self, form: Any) -> Any:
        """The value; a form that does not fit (another version of the task wrote it) is given as it is."""
        try:
            return self._value.decode(form)
        except Mismatch:
            return form

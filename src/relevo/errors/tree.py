"""The root of all errors, and how a class's message and the fields of one raise become its text."""

from __future__ import annotations

import re
from typing import Any, ClassVar


class RelevoError(RuntimeError):
    """The root of what relevo raises: catch it to catch all of them."""

    message: ClassVar[str] = "Something went wrong in relevo."
    """What was wrong, the value and the remedy, with the fields in braces; `python -OO` keeps it, and no docstrings."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__doc__ is None:
            cls.__doc__ = cls.message  # for help() and the reference

    def __init__(self, **fields: object) -> None:
        self.fields = fields
        super().__init__(sentence(type(self).message, fields))

    def __getattr__(self, name: str) -> Any:
        # Fields of the message are attributes too: `error.queue`, `error.cap`.
        fields: dict[str, object] = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.fields))


def sentence(message: str, fields: dict[str, object]) -> str:
    """The message with its fields. A reason is often a sentence of another program, with line breaks and a full stop of its
    own: inside of ours it gets neither.

    >>> sentence("Redis refused {command}: {reason}. Try again.", {"command": "XADD", "reason": "no\\nmemory."})
    'Redis refused XADD: no memory. Try again.'

    A measured time has more digits than anybody reads:

    >>> sentence("No answer after {waited_s} s.", {"waited_s": 2.999999469})
    'No answer after 3 s.'
    """
    fitting = dict(fields)
    for name, value in fields.items():
        if isinstance(value, str) and f"{{{name}}}" in message:
            text = value if message.endswith(f"{{{name}}}") else " ".join(value.split())
            goes_on = re.search(rf"\{{{name}\}}([.,;:)]| \()", message)
            fitting[name] = text.rstrip(".") if goes_on else text
            if text.endswith(("?", "!")):
                message = message.replace(f"{{{name}}}.", f"{{{name}}}")
        elif isinstance(value, float) and abs(value) >= 0.001:
            fitting[name] = _Shown(value)
    return message.format(**fitting).strip()


class _Shown(float):
    """A number as people read it: at most three decimals. A format in the message is obeyed, and so is `!r`."""

    def __format__(self, spec: str, /) -> str:
        return super().__format__(spec) if spec else format(round(float(self), 3), ".15g")


def _rebuild(kind: type[RelevoError], fields: dict[str, object]) -> RelevoError:
    error = kind.__new__(kind)
    RelevoError.__init__(error, **fields)
    return error

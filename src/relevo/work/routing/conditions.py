"""Conditions and computed values of routing rules, in CEL: an expression language that always ends and touches nothing.

An expression sees `message` (id, type, priority, state, attempts …), `labels`, `body` and `queue`, and no more. It is compiled
when a rule is saved, so that a rule with a wrong name or a slip in it is refused then and not at night.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from relevo.errors import BadExpression, ExpressionFailed

if TYPE_CHECKING:
    import cel

VARIABLES = frozenset({"message", "labels", "body", "queue", "now"})

FUNCTIONS = frozenset(
    {
        *("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint", "size", "has"),
        *("contains", "endsWith", "startsWith", "matches"),
        *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds"),
        *("getMinutes", "getMonth", "getSeconds"),
    }
)

MAX_LENGTH = 4_000
MAX_NESTED_LOOPS = 2
"""`all`, `map` and their like inside each other: a third turns a long list in a body into minutes."""

_LOOPS = ("all", "exists", "exists_one", "filter", "map")
_LOOP_VARIABLE = re.compile(rf"\.(?:{'|'.join(_LOOPS)})\(\s*([A-Za-z_]\w*)\s*,")


class Expression:
    """A compiled expression.

    >>> late = Expression("message.priority_tier == 'high' && body.amount > 100")
    >>> late.holds({"message": {"priority_tier": "high"}, "labels": {}, "body": {"amount": 250}, "queue": {}, "now": 0})
    True
    """

    __slots__ = ("_program", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self._program = _compiled(source)

    def value(self, variables: Mapping[str, Any]) -> Any:
        """What it comes to; `ExpressionFailed` names the expression and what was wrong with this message."""
        try:
            return self._program.execute(dict(variables))
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = f"no field {error}" if isinstance(error, KeyError) else str(error).splitlines()[0].rstrip(".")
            raise ExpressionFailed(expression=self.source, reason=reason) from None

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """As `value`, which must be true or false: a text or a number is no answer to "does it hold?"."""
        value = self.value(variables)
        if not isinstance(value, bool):
            raise ExpressionFailed(expression=self.source, reason=f"it gives {type(value).__name__}, not true or false")
        return value


@lru_cache(maxsize=4096)
def _compiled(source: str) -> cel.Program:
    if len(source) > MAX_LENGTH:
        raise BadExpression(expression=source[:60] + "…", reason=f"it is longer than {MAX_LENGTH} characters")
    import cel  # here: it brings a command line of its own along, and most processes never meet a rule

    try:
        program = cel.compile(source)
    except ValueError as error:
        lines = str(error).splitlines()
        raise BadExpression(expression=source, reason=lines[0].partition("ERROR: ")[2] or lines[0]) from None
    unknown = sorted(set(program.variables()) - VARIABLES - set(_LOOP_VARIABLE.findall(source)))
    if unknown:
        known = ", ".join(sorted(VARIABLES))
        raise BadExpression(expression=source, reason=f"it names {', '.join(unknown)}; there are: {known}")
    if _nested_loops(source) > MAX_NESTED_LOOPS:
        raise BadExpression(expression=source, reason=f"loops are nested more than {MAX_NESTED_LOOPS} deep")
    strange = sorted(name for name in set(program.functions()) - FUNCTIONS if name[:1].isalpha())
    if strange:
        raise BadExpression(expression=source, reason=f"there is no function {', '.join(strange)}")
    return program


def _nested_loops(source: str) -> int:
    """How deep `.map(` and its like stand inside each other. Text in quotes may hold anything and is left out."""
    deepest, open_brackets = 0, list[bool]()
    quote, at = "", 0
    while at < len(source):
        character = source[at]
        if quote:
            if character == "\\":
                at += 1
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        elif character == "(":
            name = source[:at].rstrip().rpartition(".")[2]
            open_brackets.append(name in _LOOPS)
            deepest = max(deepest, sum(open_brackets))
        elif character == ")" and open_brackets:
            open_brackets.pop()
        at += 1
    return deepest

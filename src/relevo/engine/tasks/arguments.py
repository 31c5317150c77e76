"""The arguments of a task: checked and made plain where a call is enqueued, read back where it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, NamedTuple, cast, get_args, get_origin, get_type_hints

import msgpack  # pyright: ignore[reportMissingTypeStubs]

from relevo.engine.tasks.annotations import Hints, value_of
from relevo.engine.tasks.shapes import Optional
from relevo.engine.tasks.values import ANY, Mismatch, Value, described
from relevo.errors import BadTaskCall, BadTaskData, NotEncodable

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class _Plan(NamedTuple):
    """The arguments of a call that do not travel as they are, by place and by name."""

    positional: tuple[tuple[int, Value], ...]
    named: tuple[tuple[str, Value], ...]


_AS_IT_IS = _Plan((), ())
_MOST_PLANS = 500


class Arguments:
    """How the arguments of one function travel. Made once a task."""

    def __init__(self, task: str, function: Callable[..., Any], *, skip_first: bool) -> None:
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[1 if skip_first else 0 :]
        self.signature: inspect.Signature = signature.replace(parameters=parameters)
        self._task = task
        self._hints = Hints(function)
        self._values: dict[str, Value] = {}
        """Of every parameter that can be named in a call."""
        self._positional: list[Value] = []
        self._names: list[str] = []
        """Of the positional parameters, in their order."""
        self._plans: dict[tuple[object, ...], _Plan] = {}
        self.optional: bool = True
        """Whether the task can be called without arguments."""
        self._more: Value | None = None
        self._named_more: Value | None = None
        for parameter in parameters:
            self._take(parameter)

    def _take(self, parameter: Parameter) -> None:
        if parameter.kind is Parameter.VAR_KEYWORD:
            self._take_named_more(parameter.name)
            return
        value = value_of(self._hints[parameter.name])
        if parameter.default is None and not value.passes(type(None)):
            value = Optional(value)
        if parameter.kind is Parameter.VAR_POSITIONAL:
            self._more = value
            return
        if parameter.kind in _POSITIONAL:
            self._positional.append(value)
            self._names.append(parameter.name)
        if parameter.kind is not Parameter.POSITIONAL_ONLY:
            self._values[parameter.name] = value
        if parameter.default is Parameter.empty:
            self.optional = False

    def _take_named_more(self, name: str) -> None:
        hint = self._hints[name]
        if str(get_origin(hint)).rpartition(".")[2] != "Unpack":
            self._named_more = value_of(hint)
            return
        (kind,) = get_args(hint)
        for key, each in get_type_hints(kind, include_extras=True).items():
            self._values[key] = value_of(each)
            if key in getattr(kind, "__required_keys__", ()):
                self.optional = False

    # --- where a call is enqueued ------------------------------------------------------------------------------------------

    def pack(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The call as a job's data, in plain values; refuses what does not fit. Positional arguments only when there are some:
        most calls read as a plain dict of names."""
        shape = (*map(type, args), None, *kwargs, *map(type, kwargs.values()))
        plan = self._plans.get(shape) or self._plan(shape, args, kwargs, BadTaskCall)
        if plan is _AS_IT_IS:
            return {"args": list(args), "kwargs": kwargs} if args else {"kwargs": kwargs}
        forms, named = list(args), kwargs.copy()
        try:
            for at, value in plan.positional:
                forms[at] = value.encode(forms[at])
            for name, value in plan.named:
                named[name] = value.encode(named[name])
        except Mismatch:
            raise self._blamed(args, kwargs) from None
        return {"args": forms, "kwargs": named} if args else {"kwargs": named}

    def unencodable(self, args: tuple[Any, ...], kwargs: dict[str, Any], error: NotEncodable) -> Exception:
        """The error of a call whose plain form cannot be written, with the argument it is about."""
        data = self.pack(args, kwargs)
        forms = [*zip(self._labels(len(args)), data.get("args", ()), strict=False), *data["kwargs"].items()]
        for label, form in forms:
            try:
                msgpack.packb(form)  # pyright: ignore[reportUnknownMemberType]
            except (TypeError, ValueError, OverflowError, RecursionError):
                return BadTaskCall(task=self._task, reason=f"argument {label!r}: {self._cannot_travel(label, form)}")
        return error

    def _cannot_travel(self, label: str, form: Any) -> str:
        said = f"{described(form)} cannot be sent"
        written = self._hints.unresolved.get(label)
        if written is not None:
            return (
                f"{said}: its annotation {written!r} cannot be resolved at run time (import it outside TYPE_CHECKING)"
            )
        if label in self._values and self._values[label] is ANY:
            return f"{said}: annotate the parameter with its type, or pass plain values"
        return said

    def _blamed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BadTaskCall:
        for label, value, given in self._each(args, kwargs):
            try:
                value.encode(given)
            except Mismatch as mismatch:
                return BadTaskCall(task=self._task, reason=f"argument {label + mismatch.place!r}: {mismatch.reason}")
        raise AssertionError("no argument is wrong after all")

    # --- where it runs -------------------------------------------------------------------------------------------------------

    def read(self, data: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments in a job's data, as what the annotations say; `BadTaskData` for what is no call of this task."""
        args, kwargs = self._call_in(data)
        shape = (*map(type, args), None, *kwargs, *map(type, kwargs.values()))
        plan = self._plans.get(shape) or self._plan(shape, args, kwargs, BadTaskData)
        if plan is _AS_IT_IS:
            return args, kwargs
        values, named = args.copy(), kwargs.copy()
        try:
            for at, value in plan.positional:
                values[at] = value.decode(values[at])
            for name, value in plan.named:
                named[name] = value.decode(named[name])
        except Mismatch:
            raise self._misread(args, kwargs) from None
        return values, named

    def _call_in(self, data: Any) -> tuple[list[Any], dict[str, Any]]:
        if data is None:  # `relevo add emails digest`: no data is a call without arguments
            return [], {}
        if not isinstance(data, dict):
            raise BadTaskData(task=self._task, reason=f"its data is a {type(data).__name__}")
        call = cast("dict[str, Any]", data)
        if call and call.keys() <= {"args", "kwargs"}:
            args, kwargs = call.get("args", []), call.get("kwargs", {})
            if isinstance(args, list) and isinstance(kwargs, dict):
                return cast("list[Any]", args), cast("dict[str, Any]", kwargs)
            raise BadTaskData(task=self._task, reason="`args` is no list or `kwargs` no dict")
        return [], call  # a producer in another language sends the arguments by name

    def _misread(self, args: Sequence[Any], kwargs: dict[str, Any]) -> BadTaskData:
        for label, value, form in self._each(args, kwargs):
            try:
                value.decode(form)
            except Mismatch as mismatch:
                return BadTaskData(task=self._task, reason=f"argument {label + mismatch.place!r}: {mismatch.reason}")
        raise AssertionError("no argument is wrong after all")

    # --- the shape of the call --------------------------------------------------------------------------------------------

    def _plan(
        self,
        shape: tuple[object, ...],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        refused: type[BadTaskCall | BadTaskData],
    ) -> _Plan:
        """What is left to do for calls of this shape. Remembered: most calls of a task have one of a few shapes, and to look at
        the classes of its arguments is then all that a plain call costs."""
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise refused(task=self._task, reason=str(error)) from None
        positional = [
            (at, value)
            for at, (value, each) in enumerate(zip(self._stretched(len(args)), args, strict=False))
            if not value.passes(each.__class__)
        ]
        known = ((name, self._values.get(name) or self._extra(), each) for name, each in kwargs.items())
        named = [(name, value) for name, value, each in known if not value.passes(each.__class__)]
        plan = _Plan(tuple(positional), tuple(named)) if positional or named else _AS_IT_IS
        if len(self._plans) >= _MOST_PLANS:  # a caller who makes names up must not fill our memory
            self._plans.clear()
        self._plans[shape] = plan
        return plan

    def _each(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[str, Value, Any]]:
        positional = zip(self._labels(len(args)), self._stretched(len(args)), args, strict=False)
        named = [(name, self._values.get(name) or self._extra(), value) for name, value in kwargs.items()]
        return [*positional, *named]

    def _labels(self, given: int) -> list[str]:
        return [*self._names, *(f"#{at + 1}" for at in range(len(self._names), given))][:given]

    def _stretched(self, given: int) -> list[Value]:
        return [*self._positional, *[self._more or ANY] * max(0, given - len(self._positional))]

    def _extra(self) -> Value:
        return self._named_more or ANY

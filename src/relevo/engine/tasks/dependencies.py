"""What a task is given beside its arguments: a context with the worker's resources, and dependencies made for one run."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, overload

from relevo.arguments import function
from relevo.engine.job.job import Job

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class TaskContext(Generic[R]):
    """The first argument of a task that asks for it: the job, and what the worker's lifespan made.

    async def send(context: TaskContext[Resources], to: str) -> None:
        await context.resources.http.post(...)
    """

    job: Job
    resources: R


class _Depends:
    """The default value of a parameter that the worker fills in."""

    def __init__(self, provider: Callable[..., Any]) -> None:
        self.provider = provider


@overload
def Depends(provider: Callable[..., AsyncIterator[T]]) -> T: ...
@overload
def Depends(provider: Callable[..., Iterator[T]]) -> T: ...
@overload
def Depends(provider: Callable[..., Awaitable[T]]) -> T: ...
@overload
def Depends(provider: Callable[..., T]) -> T: ...
def Depends(provider: Callable[..., Any]) -> Any:  # noqa: N802 - reads as a marker, not as a call
    """Marks a parameter to be filled in for each run by `provider`: a function, plain or async, or a generator that yields
    once and cleans up afterwards. A provider that takes a parameter is given the task's context.

    >>> def settings() -> dict[str, str]:
    ...     return {"sender": "noreply@example.org"}
    >>> def send(to: str, options: dict[str, str] = Depends(settings)) -> None: ...
    """
    function("provider", provider, remedy="Pass the function itself, not what it returns.")
    return _Depends(provider)


class Injection:
    """The dependencies of one function, found once; `fill` makes them for a run."""

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = inspect.signature(function).parameters
        self._providers = {
            name: parameter.default.provider
            for name, parameter in parameters.items()
            if isinstance(parameter.default, _Depends)
        }

    async def fill(self, context: TaskContext[Any], stack: AsyncExitStack, given: dict[str, Any]) -> dict[str, Any]:
        """The missing parameters; each provider runs once even if several parameters name it."""
        made: dict[Callable[..., Any], Any] = {}
        filled: dict[str, Any] = {}
        for name, provider in self._providers.items():
            if name in given:
                continue
            if provider not in made:
                made[provider] = await _provide(provider, context, stack)
            filled[name] = made[provider]
        return filled

    def __bool__(self) -> bool:
        return bool(self._providers)


async def _provide(provider: Callable[..., Any], context: TaskContext[Any], stack: AsyncExitStack) -> Any:
    arguments = (context,) if inspect.signature(provider).parameters else ()
    if inspect.isasyncgenfunction(provider):
        return await stack.enter_async_context(cast("Any", asynccontextmanager(provider))(*arguments))
    if inspect.isgeneratorfunction(provider):
        return stack.enter_context(cast("Any", contextmanager(provider))(*arguments))
    value = provider(*arguments)
    return await value if inspect.isawaitable(value) else value

"""What a worker may be given as its handler: an async function, a plain one, or an object such as `Tasks` or `Batch`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar, cast

from relevo.engine.consuming.job_context import here
from relevo.engine.job.job import Job
from relevo.engine.schedules.declared_schedules import Declaration
from relevo.engine.settling.outcome_policy import RetryOf
from relevo.errors import BadArgument, HandlerStopped, WrongType

T = TypeVar("T")

Handler = Callable[[Job], Awaitable[Any]]
AnyHandler = Callable[[Job], Any]


def as_handler(handler: object, threads: int) -> Handler:
    """The handler itself if it is async; a plain function runs on threads of its own, so that it stops neither the loop nor
    the leases of others."""
    checked_handler(handler)
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):  # noqa: B004
        return cast("Handler", handler)
    return ThreadedHandler(cast("AnyHandler", handler), threads)


def checked_handler(handler: object, given: str = "the job") -> None:
    """Whether it can be called with what it is given, told before the first job comes."""
    if not callable(handler):
        expected = "a function that takes a Job, or a Tasks object"
        raise WrongType(argument="handler", value=handler, expected=expected)
    name = getattr(handler, "__qualname__", None) or repr(handler)
    if inspect.isclass(handler):
        remedy = f"Pass an instance: `{name}(...)`."
        raise BadArgument(argument="handler", value=name, reason="it is a class", remedy=remedy)
    if callable(getattr(handler, "enqueue", None)):  # a Task: it takes its own arguments, and the registry knows how
        remedy = "Pass the `Tasks` object that has it: `Worker(queue_name, tasks)`."
        raise BadArgument(
            argument="handler", value=getattr(handler, "name", name), reason="it is a task", remedy=remedy
        )
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):  # some of C tell nothing about themselves
        return
    try:
        signature.bind(None)
    except TypeError as error:
        reason, remedy = f"it cannot be called with {given} alone ({error})", f"Write it with one parameter, {given}."
        raise BadArgument(argument="handler", value=name, reason=reason, remedy=remedy) from None


def contained(call: Callable[[], T]) -> T:
    """`call`, made on a thread or in a process. Some exceptions are orders to the loop that hears of them (KeyboardInterrupt),
    or cannot be told to it at all (StopIteration): there they are the handler's failure, like any other."""
    try:
        return call()
    except (KeyboardInterrupt, StopIteration) as error:
        raise HandlerStopped(error=repr(error)) from error


class ThreadedHandler:
    """A plain function as a handler. The pool starts threads as they are needed."""

    def __init__(self, function: AnyHandler, threads: int) -> None:
        self._function = function
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="relevo-handler")

    async def __call__(self, job: Job) -> Any:
        call: Callable[[], Any] = here(partial(contained, partial(self._function, job)))
        value = await asyncio.get_running_loop().run_in_executor(self._pool, call)
        return await value if inspect.isawaitable(value) else value

    def function_of(self, _: str) -> AnyHandler:
        return self._function

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        return _Pool(self._pool)


class _Pool(AbstractAsyncContextManager[None]):
    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    async def __aexit__(self, *_: object) -> None:
        # Not waited for: a function that outlasts the deadline has been handed back, and a thread cannot be stopped.
        self._pool.shutdown(wait=False, cancel_futures=True)


def function_finder(handler: object) -> Callable[[str], Callable[..., object] | None]:
    """Finds the function that runs the jobs of a name; a handler that has several says so with `function_of`."""
    function_of = getattr(handler, "function_of", None)
    if callable(function_of):
        return cast("Callable[[str], Callable[..., object] | None]", function_of)
    return lambda _: cast("Callable[..., object]", handler)


def lifespan_of(handler: object) -> AbstractAsyncContextManager[Any]:
    """What has to be open while the handler is used."""
    lifespan = getattr(handler, "lifespan", None)
    return cast("AbstractAsyncContextManager[Any]", lifespan()) if callable(lifespan) else nullcontext()


def retry_of(handler: object) -> RetryOf | None:
    """How often and how late jobs of a name are tried again, from a handler that knows; None for one that does not."""
    known = getattr(handler, "retry_of", None)
    return cast("RetryOf", known) if callable(known) else None


def declarations_of(handler: object) -> Callable[[], Sequence[Declaration]] | None:
    """The schedules that the handler's code declares, from a handler that may declare some."""
    declared = getattr(handler, "declared_schedules", None)
    return cast("Callable[[], Sequence[Declaration]]", declared) if callable(declared) else None

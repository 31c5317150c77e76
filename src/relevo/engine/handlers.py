"""What a worker may be given as its handler: an async function, a plain one, or an object such as `Tasks` or `Batch`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, cast

from relevo.engine.job import Job
from relevo.engine.job_context import here
from relevo.errors import WrongType

Handler = Callable[[Job], Awaitable[Any]]
AnyHandler = Callable[[Job], Any]


def as_handler(handler: object, threads: int) -> Handler:
    """The handler itself if it is async; a plain function runs on threads of its own, so that it stops neither the loop nor
    the leases of others."""
    if not callable(handler):
        remedy = "pass a function that takes a Job, or a Tasks object."
        raise WrongType(argument="handler", value=handler, kind=type(handler).__name__, remedy=remedy)
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):  # noqa: B004
        return cast("Handler", handler)
    return ThreadedHandler(cast("AnyHandler", handler), threads)


class ThreadedHandler:
    """A plain function as a handler. The pool starts threads as they are needed."""

    def __init__(self, function: AnyHandler, threads: int) -> None:
        self._function = function
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="relevo-handler")

    async def __call__(self, job: Job) -> Any:
        call: Callable[[], Any] = here(partial(self._function, job))
        value = await asyncio.get_running_loop().run_in_executor(self._pool, call)
        return await value if inspect.isawaitable(value) else value

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        return _Pool(self._pool)


class _Pool(AbstractAsyncContextManager[None]):
    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    async def __aexit__(self, *_: object) -> None:
        # Not waited for: a function that outlasts the deadline has been handed back, and a thread cannot be stopped.
        self._pool.shutdown(wait=False, cancel_futures=True)


def lifespan_of(handler: object) -> AbstractAsyncContextManager[Any]:
    """What has to be open while the handler is used."""
    lifespan = getattr(handler, "lifespan", None)
    return cast("AbstractAsyncContextManager[Any]", lifespan()) if callable(lifespan) else nullcontext()

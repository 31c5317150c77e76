"""Typed tasks: functions with names. A call is checked by the type checker from the producer to the handler.

tasks = Tasks()

@tasks.task()
async def send(to: str, *, subject: str) -> None: ...

await send.enqueue(queue, "ada@example.org", subject="Hello")   # checked like a call of `send`
await Worker("emails", tasks).run()
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from multiprocessing import get_context
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, Unpack, cast, get_type_hints, overload

from relevo.engine.add_options import AddKeywords, AddOptions
from relevo.engine.backoff import BackoffLike
from relevo.engine.dependencies import Injection, TaskContext
from relevo.engine.job import Job
from relevo.engine.job_context import here
from relevo.engine.queue import Queue
from relevo.errors import BadArgument, BadTask, BadTaskData, TaskTimedOut, UnknownTask

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

RunOn = Literal["loop", "thread", "process"]


class Task(Generic[P, T]):
    """One task. Call it like the function it is, or `enqueue` the call."""

    def __init__(
        self, name: str, function: Callable[..., Any], *, run_on: RunOn, timeout_s: float | None, options: AddOptions
    ) -> None:
        self.name = name
        self.function = function
        self.run_on: RunOn = run_on
        self.timeout_s = timeout_s
        self.takes_context = _takes_context(function)
        self.injection = Injection(function)
        self.signature = inspect.signature(function)
        self.add_options = options
        """How its calls are added; `options` makes a task with others."""
        self._keywords = options.given()
        self.__doc__ = function.__doc__

    def __reduce__(self) -> tuple[Any, ...]:
        # By name, as functions are: the name now stands for the task, and another process finds the task there too.
        return find_task, (self.function.__module__, self.function.__qualname__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """The plain call, here and now."""
        return self.function(*args, **kwargs)

    async def enqueue(self, queue: Queue, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Adds a job that runs this call."""
        return await queue.add(self.name, call_data(args, kwargs), **self._keywords)

    def options(self, **options: Unpack[AddKeywords]) -> Task[P, T]:
        """The same task, sent otherwise: `send.options(delay=timedelta(hours=1)).enqueue(queue, ...)`. Options are those of
        `Queue.add`."""
        chosen = self.add_options.but(**options)
        return Task(self.name, self.function, run_on=self.run_on, timeout_s=self.timeout_s, options=chosen)


Lifespan = Callable[[], AbstractAsyncContextManager[R]]


class Tasks(Generic[R]):
    """A registry of tasks; pass it to `Worker` as the handler. `lifespan` makes what all runs share (a database pool, an HTTP
    client): entered when the worker starts, left when it has stopped.

    >>> tasks = Tasks()
    >>> @tasks.task()
    ... async def greet(name: str) -> str:
    ...     return f"Hello {name}"
    >>> greet.name
    'greet'
    """

    def __init__(self, lifespan: Lifespan[R] | None = None, *, processes: int | None = None) -> None:
        self._lifespan = lifespan
        self._tasks: dict[str, Task[Any, Any]] = {}
        self._resources: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self._processes: ProcessPoolExecutor | None = None
        self._most_processes = processes
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._users = 0

    # --- making tasks ----------------------------------------------------------------------------------------------------

    @overload
    def task(
        self,
        name: str | None = None,
        *,
        run_on: RunOn | None = None,
        timeout_s: float | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
    ) -> _TaskMaker[R]: ...
    @overload
    def task(self, name: Callable[Concatenate[TaskContext[R], P], T]) -> Task[P, T]: ...
    @overload
    def task(self, name: Callable[P, T]) -> Task[P, T]: ...
    def task(
        self,
        name: Any = None,
        *,
        run_on: RunOn | None = None,
        timeout_s: float | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
    ) -> Any:
        """Makes a task of a function. `def` runs on a thread unless `run_on="process"`; `async def` runs on the loop. A run
        longer than `timeout_s` fails (and is retried like any failure)."""
        options = AddOptions(attempts=attempts, backoff=backoff)
        if callable(name):
            return self._register(None, name, run_on, timeout_s, options)
        return partial(self._register, name, run_on=run_on, timeout_s=timeout_s, options=options)

    def _register(
        self,
        name: str | None,
        function: Callable[..., Any],
        run_on: RunOn | None,
        timeout_s: float | None,
        options: AddOptions,
    ) -> Task[Any, Any]:
        is_async = inspect.iscoroutinefunction(function)
        chosen: RunOn = run_on or ("loop" if is_async else "thread")
        called = cast("str", name or getattr(function, "__name__", repr(function)))
        if is_async and chosen != "loop":
            raise BadTask(
                task=called, reason=f"an async function cannot run on a {chosen}", remedy="Write a plain `def`."
            )
        if not is_async and chosen == "loop":
            raise BadTask(
                task=called, reason="a plain function on the loop would stop all others", remedy="Use a thread."
            )
        if chosen == "process" and "<locals>" in getattr(function, "__qualname__", "<locals>"):
            remedy = "Define it at the top of a module that can be imported."
            raise BadTask(task=called, reason="another process cannot import it", remedy=remedy)
        if chosen == "process" and _takes_context(function):
            remedy = "Pass what it needs as arguments, or use a thread."
            raise BadTask(task=called, reason="the context cannot travel to another process", remedy=remedy)
        if timeout_s is not None and not timeout_s > 0:
            raise BadArgument(argument="timeout_s", value=timeout_s, reason="no time at all", remedy="Pass seconds.")
        if called in self._tasks:
            raise BadTask(task=called, reason="there is one of that name", remedy="Give it another name.")
        made = self._tasks[called] = Task(called, function, run_on=chosen, timeout_s=timeout_s, options=options)
        return made

    def __iter__(self) -> Any:
        return iter(self._tasks.values())

    # --- running them ------------------------------------------------------------------------------------------------------

    async def __call__(self, job: Job) -> Any:
        """The handler: runs the task that `job.name` names."""
        task = self._tasks.get(job.name)
        if task is None:
            raise UnknownTask(name=job.name, known=", ".join(sorted(self._tasks)) or "none")
        args, kwargs = read_call(job)
        if task.timeout_s is None:
            return await self._run(task, job, args, kwargs)
        limit = asyncio.timeout(task.timeout_s)
        try:
            async with limit:
                return await self._run(task, job, args, kwargs)
        except TimeoutError as error:
            if limit.expired():
                raise TaskTimedOut(task=task.name, timeout_s=task.timeout_s) from error
            raise

    async def _run(self, task: Task[Any, Any], job: Job, args: list[Any], kwargs: dict[str, Any]) -> Any:
        context: TaskContext[Any] = TaskContext(job, self._resources)
        leading = (context,) if task.takes_context else ()
        try:
            task.signature.bind(*leading, *args, **kwargs)
        except TypeError as error:  # no retry will make the arguments fit
            raise BadTaskData(task=task.name, reason=str(error)) from error
        called = task if task.run_on == "process" else task.function
        if not task.injection:
            return await self._call(task, partial(called, *leading, *args, **kwargs))
        failure: BaseException | None = None
        async with AsyncExitStack() as stack:
            try:
                kwargs = kwargs | await task.injection.fill(context, stack, kwargs)
                return await self._call(task, partial(called, *leading, *args, **kwargs))
            except BaseException as error:
                failure = error
                raise
        # A dependency that rolls back and raises nothing leads here: the run has failed all the same.
        assert failure is not None
        raise failure

    async def _call(self, task: Task[Any, Any], call: Callable[[], Any]) -> Any:
        if task.run_on == "loop":
            return await cast("Callable[[], Awaitable[Any]]", call)()
        if task.run_on == "thread":  # another process has no use for our context
            call = here(call)
        executor = self._executor(task.run_on)
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, call)
        except BrokenExecutor:
            if executor is self._processes:  # a process died: this run failed, and the next gets a pool of living ones
                self._processes = None
            raise

    def _executor(self, run_on: RunOn) -> Executor:
        """Pools of our own: a library that fills asyncio's default pool must not hold up jobs."""
        if run_on == "process":
            if self._processes is None:
                # Spawned, not forked: a fork would copy the lease thread's sockets in mid-sentence.
                self._processes = ProcessPoolExecutor(self._most_processes, mp_context=get_context("spawn"))
            return self._processes
        if self._threads is None:
            self._threads = ThreadPoolExecutor(max_workers=128, thread_name_prefix="relevo-task")
        return self._threads

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Entered by the worker around its whole run."""
        return _Lifespan(self)


class _Lifespan(AbstractAsyncContextManager[None]):
    """Workers of several queues may share one registry: the first to come opens its resources, the last to go closes them."""

    def __init__(self, tasks: Tasks[Any]) -> None:
        self._tasks = tasks

    async def __aenter__(self) -> None:
        tasks = self._tasks
        async with tasks._opening:  # pyright: ignore[reportPrivateUsage]
            if tasks._users == 0 and tasks._lifespan is not None:  # pyright: ignore[reportPrivateUsage]
                tasks._resources = await tasks._stack.enter_async_context(tasks._lifespan())  # pyright: ignore[reportPrivateUsage]
            tasks._users += 1  # pyright: ignore[reportPrivateUsage]

    async def __aexit__(self, *error: Any) -> None:
        tasks = self._tasks
        async with tasks._opening:  # pyright: ignore[reportPrivateUsage]
            tasks._users -= 1  # pyright: ignore[reportPrivateUsage]
            if tasks._users > 0:  # pyright: ignore[reportPrivateUsage]
                return
            for pool in (tasks._threads, tasks._processes):  # pyright: ignore[reportPrivateUsage]
                if pool is not None:
                    await asyncio.to_thread(pool.shutdown, wait=False, cancel_futures=True)
            tasks._threads = tasks._processes = None  # pyright: ignore[reportPrivateUsage]
            stack, tasks._stack = tasks._stack, AsyncExitStack()  # pyright: ignore[reportPrivateUsage]
            await stack.__aexit__(*error)


class _TaskMaker(Generic[R]):
    """What `@tasks.task(...)` returns; only its type is real."""

    @overload
    def __call__(self, function: Callable[Concatenate[TaskContext[R], P], T]) -> Task[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T]) -> Task[P, T]: ...
    def __call__(self, function: Any) -> Any:
        return function


def find_task(module: str, name: str) -> Any:
    """The task (or plain function) of that name, in whatever process asks."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def call_data(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """A call as a job's data. Positional arguments only when there are some: most calls read as a plain dict of names."""
    return {"args": list(args), "kwargs": kwargs} if args else {"kwargs": kwargs}


def read_call(job: Job) -> tuple[list[Any], dict[str, Any]]:
    data = job.data
    if not isinstance(data, dict):
        raise BadTaskData(task=job.name, reason=f"its data is a {type(data).__name__}")
    call = cast("dict[str, Any]", data)
    if set(call) <= {"args", "kwargs"} and call:
        args, kwargs = call.get("args", []), call.get("kwargs", {})
        if isinstance(args, list) and isinstance(kwargs, dict):
            return cast("list[Any]", args), cast("dict[str, Any]", kwargs)
        raise BadTaskData(task=job.name, reason="`args` is no list or `kwargs` no dict")
    return [], call  # a producer in another language sends the arguments by name


def _takes_context(function: Callable[..., Any]) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        return False
    try:
        hint = get_type_hints(function).get(parameters[0].name)
    except (NameError, AttributeError, TypeError):  # an annotation that only the type checker can resolve
        hint = parameters[0].annotation
    return hint is TaskContext or getattr(hint, "__origin__", None) is TaskContext or "TaskContext" in str(hint)

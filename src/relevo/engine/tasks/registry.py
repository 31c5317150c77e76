"""The registry of tasks: a handler that runs the task a job names, on the loop, a thread or a process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, get_args, overload

from relevo.arguments import checked_name, positive, seconds
from relevo.engine.consuming.handlers import contained
from relevo.engine.consuming.job_context import here
from relevo.engine.job.add_options import AddOptions
from relevo.engine.job.job import Job
from relevo.engine.schedules.declared_schedules import Declaration
from relevo.engine.schedules.schedules import MissedFiresLike
from relevo.engine.settling.bad_result import pickled_call, unpickled
from relevo.engine.tasks.dependencies import TaskContext
from relevo.engine.tasks.task import RunOn, Task, takes_context
from relevo.errors import BadArgument, BadTask, TaskTimedOut, UnknownTask, WrongType
from relevo.wire.backoff import BackoffLike
from relevo.wire.retry import RetryOverride

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

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
        self._lifespan = _checked_lifespan(lifespan)
        self._tasks: dict[str, Task[Any, Any]] = {}
        self._resources: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self._processes: ProcessPoolExecutor | None = None
        self._most_processes = None if processes is None else positive("processes", processes)
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._users = 0
        self._declared: dict[str, Declaration] = {}
        self._included: list[Tasks[Any]] = []
        self._included_by: list[Tasks[Any]] = []
        self._homes: dict[str, Tasks[Any]] = {}
        """The registries of tasks that were included: they run them, with their own resources."""

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
        cron: str | None = None,
        tz: str | None = None,
        every: timedelta | None = None,
        missed_fires: MissedFiresLike | None = None,
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
        cron: str | None = None,
        tz: str | None = None,
        every: timedelta | None = None,
        missed_fires: MissedFiresLike | None = None,
    ) -> Any:
        """Makes a task of a function. `def` runs on a thread unless `run_on="process"`; `async def` runs on the loop. A run
        longer than `timeout_s` fails (and is retried like any failure). `attempts` and `backoff` hold for every job of the
        task that brings none of its own.

        With `cron` (in the time zone `tz`) or `every`, workers make a schedule of it in their queue, and end it when it has
        left the code."""
        options = AddOptions(attempts=attempts, backoff=backoff)
        if not callable(name) and name is not None:
            checked_name("name", name)
        if callable(name):
            return self._register(None, name, run_on, timeout_s, options)
        schedule = partial(Declaration.of, cron=cron, tz=tz, every=every, missed_fires=missed_fires)
        return partial(self._register, name, run_on=run_on, timeout_s=timeout_s, options=options, schedule=schedule)

    def _register(
        self,
        name: str | None,
        function: Callable[..., Any],
        run_on: RunOn | None,
        timeout_s: float | None,
        options: AddOptions,
        schedule: Callable[[str], Declaration | None] = Declaration.of,
    ) -> Task[Any, Any]:
        if run_on is not None and run_on not in get_args(RunOn):
            remedy = 'Pass "loop", "thread" or "process".'
            raise BadArgument(argument="run_on", value=run_on, reason="unknown", remedy=remedy)
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
        if chosen == "process" and takes_context(function):
            remedy = "Pass what it needs as arguments, or use a thread."
            raise BadTask(task=called, reason="the context cannot travel to another process", remedy=remedy)
        if timeout_s is not None:
            seconds("timeout_s", timeout_s)
        made: Task[Any, Any] = Task(called, function, run_on=chosen, timeout_s=timeout_s, options=options)
        declared = schedule(called)
        if declared is not None and not made.arguments.optional:
            remedy = "Give its parameters defaults, or make the schedule with `upsert_repeatable_job`."
            raise BadTask(task=called, reason="a schedule calls it without arguments", remedy=remedy)
        self._admit([(made, self)])
        if declared is not None:
            self._declared[called] = declared
        return made

    def _admit(self, tasks: Sequence[tuple[Task[Any, Any], Tasks[Any]]]) -> None:
        """Takes tasks in with the registries that run them, here and wherever this one is included; all of them or none."""
        registries = list(self._and_those_that_include_it())
        for task, _ in tasks:
            for registry in registries:
                if registry._tasks.get(task.name, task) is not task:
                    raise BadTask(task=task.name, reason="there is one of that name", remedy="Give it another name.")
        for task, home in tasks:
            for registry in registries:
                registry._tasks[task.name] = task
                if registry is not home:
                    registry._homes[task.name] = home

    def _and_those_that_include_it(self) -> Iterator[Tasks[Any]]:
        yield self
        for other in self._included_by:
            yield from other._and_those_that_include_it()

    def include(self, other: Tasks[Any]) -> None:
        """Takes the tasks of another registry in, with their schedules, also those that are defined there later. They keep the
        resources of their own registry: a worker enters the lifespans of both. Two tasks of one name are refused.

        >>> mail, app = Tasks(), Tasks()
        >>> @mail.task()
        ... async def send(to: str) -> None: ...
        >>> app.include(mail)
        >>> [task.name for task in app]
        ['send']
        """
        if not isinstance(other, Tasks):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongType(argument="other", value=other, expected="Tasks")
        if any(registry is other for registry in self._and_those_that_include_it()):
            remedy = "Include in one direction only."
            raise BadArgument(
                argument="other", value=other, reason="it includes this registry, or is it", remedy=remedy
            )
        self._admit([(task, other._homes.get(task.name, other)) for task in other._tasks.values()])
        self._included.append(other)
        other._included_by.append(self)

    def declared_schedules(self) -> list[Declaration]:
        """The schedules that tasks declare, also of registries that are included; workers make and keep them."""
        declared = dict(self._declared)
        for other in self._included:
            declared.update({each.name: each for each in other.declared_schedules()})
        return list(declared.values())

    def __iter__(self) -> Any:
        return iter(self._tasks.values())

    def retry_of(self, name: str) -> RetryOverride | None:
        """What the task of that name says about attempts and backoff; workers ask when the job brings nothing."""
        task = self._tasks.get(name)
        return None if task is None else task.retry

    def function_of(self, name: str) -> Callable[..., Any] | None:
        """The function of the task of that name, for those who tell where it stands."""
        task = self._tasks.get(name)
        return None if task is None else task.function

    # --- running them ------------------------------------------------------------------------------------------------------

    async def __call__(self, job: Job) -> Any:
        """The handler: runs the task that `job.name` names."""
        task = self._tasks.get(job.name)
        if task is None:
            raise UnknownTask(name=job.name, known=", ".join(sorted(self._tasks)) or "none")
        if self._homes and job.name in self._homes:
            return await self._homes[job.name](job)
        args, kwargs = task.arguments.read(job.data)
        if task.timeout_s is None:
            value = await self._run(task, job, args, kwargs)
        else:
            value = await self._run_within(task.timeout_s, task, job, args, kwargs)
        return value if task.returns.plain else task.returns.encode(value)

    async def _run_within(
        self, timeout_s: float, task: Task[Any, Any], job: Job, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                return await self._run(task, job, args, kwargs)
        except TimeoutError as error:
            if limit.expired():
                raise TaskTimedOut(task=task.name, timeout_s=timeout_s) from error
            raise

    async def _run(self, task: Task[Any, Any], job: Job, args: list[Any], kwargs: dict[str, Any]) -> Any:
        context: TaskContext[Any] = TaskContext(job, self._resources)
        leading = (context,) if task.takes_context else ()
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
        call = partial(contained, call)
        if task.run_on == "thread":  # another process has no use for our context
            call = here(call)
        if task.run_on == "process":
            call = partial(pickled_call, task.name, call)
        executor = self._executor(task.run_on)
        try:
            value = await asyncio.get_running_loop().run_in_executor(executor, call)
            return unpickled(task.name, value) if task.run_on == "process" else value
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

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Entered by the worker around its whole run."""
        async with AsyncExitStack() as stack:
            for other in self._included:
                await stack.enter_async_context(other.lifespan())
            await stack.enter_async_context(_Lifespan(self))
            yield


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


def _checked_lifespan(lifespan: Lifespan[R] | None) -> Lifespan[R] | None:
    if lifespan is None:
        return None
    if not callable(lifespan):
        expected = "a function that returns an async context manager"
        remedy = "Pass the function itself, not what it returns."
        raise WrongType(argument="lifespan", value=lifespan, expected=expected, remedy=remedy)
    if inspect.isasyncgenfunction(lifespan):
        reason, remedy = "it is an async generator", "Put `@contextlib.asynccontextmanager` above it."
        raise BadArgument(argument="lifespan", value=lifespan, reason=reason, remedy=remedy)
    return lifespan

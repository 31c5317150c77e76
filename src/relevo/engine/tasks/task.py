"""A task: a function with a name, whose calls can be enqueued."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Literal, ParamSpec, TypeVar, Unpack, cast, get_type_hints

from relevo.engine.job.add_options import AddKeywords, AddOptions
from relevo.engine.job.job import Job
from relevo.engine.producing.call import Call
from relevo.engine.producing.pending_add import PendingCall
from relevo.engine.queue import Queue
from relevo.engine.sync_queue import SyncJob, SyncQueue
from relevo.engine.tasks.arguments import Arguments
from relevo.engine.tasks.dependencies import Injection, TaskContext
from relevo.engine.tasks.results import ReturnValue
from relevo.engine.tasks.task_job import TaskJob
from relevo.errors import NotEncodable, WrongType
from relevo.wire.backoff import retry_override
from relevo.wire.retry import RetryOverride

P = ParamSpec("P")
T = TypeVar("T")

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
        self.takes_context: bool = takes_context(function)
        self.injection: Injection = Injection(function)
        self.arguments: Arguments = Arguments(name, function, skip_first=self.takes_context)
        self.returns: ReturnValue = ReturnValue(function)
        self.__doc__ = function.__doc__
        self._send_with(options)

    def _send_with(self, options: AddOptions) -> None:
        self.add_options = options
        """How its calls are added; `options` makes a task with others."""
        self.retry: RetryOverride | None = retry_override(options.attempts, options.backoff)
        self._keywords = options.given()

    def __reduce__(self) -> tuple[Any, ...]:
        # By name, as functions are: the name now stands for the task, and another process finds the task there too.
        return find_task, (self.function.__module__, self.function.__qualname__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """The plain call, here and now."""
        return self.function(*args, **kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """A call to be made later, for `Queue.add_bulk`, `Flow.add` and `Queue.upsert_repeatable_job`. Checked here."""
        return Call(self.name, self.arguments.pack(args, kwargs), self.add_options)

    def enqueue(self, queue: Queue, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, TaskJob[T]]:
        """Adds a job that runs this call. Await it, as `Queue.add`. The arguments are checked against the signature at once;
        `BadTaskCall` names the one that does not fit."""
        if not isinstance(queue, Queue):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self._no_queue(queue, "enqueue")
        pending: Any = queue.add(self.name, self.arguments.pack(args, kwargs), **self._keywords)
        if isinstance(pending, PendingCall):
            return cast("Any", pending.around(partial(self._enqueue, args, kwargs)))
        TaskJob.of(pending.job, self.returns)  # a plain add has its job from the beginning
        return pending

    def enqueue_sync(self, queue: SyncQueue, /, *args: P.args, **kwargs: P.kwargs) -> SyncJob[T]:
        """`enqueue` for code without an event loop, with a `SyncQueue`: returns when Redis has the job."""
        if not isinstance(queue, SyncQueue):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self._no_queue(queue, "enqueue_sync")
        try:
            job = queue.add(self.name, self.arguments.pack(args, kwargs), **self._keywords)
        except NotEncodable as error:
            raise self.arguments.unencodable(args, kwargs, error) from None
        return replace(job, _returns=None if self.returns.plain else self.returns)

    def _no_queue(self, given: object, method: str) -> WrongType:
        expected = "SyncQueue" if method == "enqueue_sync" else "Queue"
        remedy = f"Pass the queue first, then the arguments of the task: `{self.name}.{method}(queue, ...)`."
        if isinstance(given, Queue | SyncQueue):
            remedy = f"`{'enqueue' if isinstance(given, Queue) else 'enqueue_sync'}` takes this kind of queue."
        return WrongType(argument="queue", value=given, expected=expected, remedy=remedy)

    async def _enqueue(self, args: tuple[Any, ...], kwargs: dict[str, Any], add: Coroutine[Any, Any, Job]) -> Job:
        try:
            return TaskJob.of(await add, self.returns)
        except NotEncodable as error:
            raise self.arguments.unencodable(args, kwargs, error) from None

    def options(self, **options: Unpack[AddKeywords]) -> Task[P, T]:
        """The same task, sent otherwise: `send.options(delay=timedelta(hours=1)).enqueue(queue, ...)`. Options are those of
        `Queue.add`."""
        other = cast("Task[P, T]", object.__new__(Task))
        other.__dict__.update(self.__dict__)  # what was learnt of the function is learnt once, not at every call
        other._send_with(self.add_options.but(**options))
        return other


def find_task(module: str, name: str) -> Any:
    """The task (or plain function) of that name, in whatever process asks."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether the first parameter asks for the `TaskContext`."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        return False
    try:
        hint = get_type_hints(function).get(parameters[0].name)
    except (NameError, AttributeError, TypeError):  # an annotation that only the type checker can resolve
        hint = parameters[0].annotation
    return hint is TaskContext or getattr(hint, "__origin__", None) is TaskContext or "TaskContext" in str(hint)

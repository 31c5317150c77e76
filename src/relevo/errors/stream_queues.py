"""What the engine, its servers and its tools raise."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from relevo.errors.tree import RelevoError

# --- raised by handlers -------------------------------------------------------------------------------------------


class UnrecoverableError(RuntimeError):
    """Raise this (or a subclass) from a handler to dead-letter the job at once, whatever retries are left."""


class NotSupportedError(RuntimeError):
    """An option that this engine knows of and does not offer; the message names it and what to use instead."""


class RateLimited(Exception):
    """Raise this from a handler when the other side says "later": the job comes back then, and the run does not count.

    A job of a lane takes its whole lane with it: nothing of that lane runs before the time.
    """

    def __init__(self, *, until: datetime | None = None, retry_after_s: float | None = None) -> None:
        if (until is None) == (retry_after_s is None):
            raise BadArgument(argument="until", value=until, reason="pass one of the two", remedy="Or retry_after_s.")
        if until is not None:
            if until.utcoffset() is None:
                remedy = "Use datetime.now(UTC), or call .astimezone() on it if it is local time."
                raise BadArgument(argument="until", value=until, reason="it has no time zone", remedy=remedy)
            retry_after_s = (until - datetime.now(UTC)).total_seconds()
        elif isinstance(retry_after_s, bool) or not isinstance(retry_after_s, int | float):
            raise WrongType(argument="retry_after_s", value=retry_after_s, expected="int or float")
        if not -math.inf < retry_after_s < 2**42:
            remedy = "Pass a number of seconds; one that has passed means at once."
            raise BadArgument(argument="retry_after_s", value=retry_after_s, reason="must be finite", remedy=remedy)
        self.wait_ms: int = max(0, int(retry_after_s * 1000))
        super().__init__(f"to be tried again in {self.wait_ms / 1000:.1f} s")


class UnknownTask(RelevoError, UnrecoverableError):
    message = (
        "No task is named {name!r} here (there are: {known}): deploy the worker that has it, then replay the dead "
        "letter."
    )


class BadTaskData(RelevoError, UnrecoverableError):
    message = (
        "The data of a job for task {task!r} does not fit its arguments: {reason}. Send a dict of arguments by name, "
        'or `{{"args": [], "kwargs": {{}}}}`.'
    )


class BadResult(RelevoError, UnrecoverableError):
    message = (
        "The result of {task!r} cannot be stored: {where} is of type {kind} ({reason}). Return plain data, "
        "or turn it into text first."
    )


class TaskTimedOut(RelevoError, TimeoutError):
    message = "Task {task!r} ran longer than its {timeout_s} s: raise `timeout_s`, or make it faster."


class JobTimedOut(RelevoError, TimeoutError):
    message = (
        "Job {job_id!r} ran longer than {timeout_s} s: raise `job_timeout_s` on the worker, or make the handler faster."
    )


class HandlerStopped(RelevoError):
    message = (
        "The handler raised {error}, which a thread cannot tell the loop: raise an ordinary exception to have the job "
        "tried again, or UnrecoverableError to give it up."
    )


class UntoldError(RelevoError):
    message = (
        "The handler raised {kind}, and that error itself fails when it is looked at: give it a `__str__` and attributes "
        "that do not raise."
    )


class JobCancelled(RelevoError):
    message = "Job {job_id!r} was cancelled."


# --- what the caller passed ---------------------------------------------------------------------------------------


class BadArgument(RelevoError, ValueError):
    message = "{argument}={value!r} is not valid: {reason}. {remedy}"


# ChasquiMQ answers some wrong types with a ValueError and some data with an OverflowError: whatever a program written for it
# catches, it catches here too.


class WrongType(RelevoError, TypeError, ValueError):
    message = "{argument}={value!r}: expected {expected}, got {kind}. {remedy}"

    def __init__(self, *, argument: str, value: object, expected: str, remedy: str = "") -> None:
        kind = "None" if value is None else type(value).__name__
        super().__init__(argument=argument, value=value, expected=expected, kind=kind, remedy=remedy)


class NotEncodable(RelevoError, TypeError, ValueError, OverflowError):
    message = (
        "The data of job {job!r} cannot be written as msgpack: {reason}. Use dict, list, str, bytes, int (64 bit), "
        "float, bool and None; turn dates into text (`.isoformat()`), sets into lists and Decimal or UUID into "
        "`str()`."
    )


class PayloadTooLarge(RelevoError, ValueError):
    message = (
        "The data of job {job!r} is {size} bytes, the limit is {limit}: store it elsewhere and send a reference, or "
        "raise `max_payload_bytes` on the queue and on its workers."
    )


class NameTooLong(RelevoError, ValueError):
    message = "The job name {name!r} is {size} bytes, the limit is 256: names are labels, put the rest into the data."


class DelayTooLong(RelevoError, ValueError):
    message = (
        "A delay of {delay_s} s is over the limit of {limit_s} s: raise `max_delay_secs` on the queue, 0 turns it off."
    )


class BadUrl(RelevoError, ValueError):
    message = (
        "The Redis address {url!r} is not valid: {reason}. Write redis://, rediss://, unix://, redis+cluster:// or "
        "redis+sentinel://host:port,host:port/master-name."
    )


class BadCron(RelevoError, ValueError):
    message = "The cron expression {expression!r} is not valid: {reason}. {remedy}"


class UnknownZone(RelevoError, ValueError):
    message = (
        'The time zone {zone!r} is unknown: write "UTC", an offset such as "+05:30", or an IANA name in its '
        'exact case such as "America/New_York".'
    )


class BadInterval(RelevoError, ValueError):
    message = "An interval of {value!r} ms is not valid: pass a whole number of milliseconds, at least 1."


class NoSuchSchedule(RelevoError, KeyError):
    message = "Queue {queue!r} has no schedule {key!r}: `Queue.get_repeatable_jobs` lists the keys there are."

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0])


class NeverFires(RelevoError, ValueError):
    message = "The schedule {schedule!r} would never fire: {reason}. {remedy}"


class BadTask(RelevoError, ValueError):
    message = "The function {task!r} cannot be a task: {reason}. {remedy}"


class BadTaskCall(RelevoError, TypeError):
    message = "{task}() {reason}. Pass what the task's signature asks for."


class BadFlow(RelevoError, ValueError):
    message = "The flow is not valid: {reason}. {remedy}"


class BadTarget(RelevoError, ValueError):
    message = "The target {target!r} is not valid: {reason}. {remedy}"


class BadBatchOutcome(RelevoError):
    message = (
        "The batch handler returned {given} outcomes for {wanted} jobs: return one for each, in their order, or None."
    )


class DependencyMissing(RelevoError, ImportError):
    message = "{what} needs the package {package!r}, which is not installed: run `pip install '{extra}'`."


# --- what the wire held -------------------------------------------------------------------------------------------


class Undecodable(RelevoError, ValueError):
    message = "These {size} bytes are not a {what}: {reason}. They were written by another program, or damaged."


# --- what the server said -----------------------------------------------------------------------------------------


class QueueFull(RelevoError):
    message = (
        "Queue {queue!r} holds {length} jobs, its cap is {cap}: add workers, raise `max_stream_len`, or retry later."
    )


class QueueBusy(RelevoError):
    message = (
        "Queue {queue!r} cannot be deleted while workers hold {running} of its jobs: pause it and wait until they are "
        "finished, or pass `force=True` to delete these as well."
    )


class ConnectionLost(RelevoError, ConnectionError):
    message = (
        "The connection to {address} was lost: {reason}. Commands that were under way may or may not have been "
        "executed."
    )


class Redirected(ConnectionLost):
    message = (
        "{address} did not execute the command: {reason}. relevo looks up the queue's node again and repeats the "
        "command."
    )


class Unreachable(RelevoError, ConnectionError):
    message = (
        "No Redis answers at {address} after {waited_s} s: {reason}. Start one (`relevo up` brings its own), or "
        "correct `redis_url`."
    )


class AddUncertain(RelevoError):
    message = (
        "The connection was lost while job {job_id!r} was being delayed, and it is already due: it may have been "
        "added. Pass `job_id=` to make a delayed add safe to repeat."
    )


class ServerRefused(RelevoError):
    message = "Redis refused {command}: {reason}."


class NotMeasurable(RelevoError):
    message = "{address} cannot be measured: {reason}. {remedy}"


class ResultTimeout(RelevoError, TimeoutError):
    message = (
        "No result of job {job_id!r} within {timeout_s} s: it waits or runs, or it ended before and left no trace. "
        "Wait longer, or look with `relevo job show`."
    )


class JobDead(RelevoError, TimeoutError):
    message = "Job {job_id!r} is dead ({reason}; {detail}). Look with `relevo job show`, send it back with `relevo dlq replay`."


class NoQueue(RelevoError):
    message = "Job {job_id!r} is not bound to a queue: only jobs returned by `Queue.add` can wait for their result."


class InsideLoop(RelevoError):
    message = (
        "{call}() was called inside a running event loop, which it would block: use `Queue` there and await its methods, "
        "or call it from another thread (`asyncio.to_thread`)."
    )


class NotRunning(RelevoError):
    message = (
        "Job {job_id!r} is not running here: only a handler can report progress or write to the log of its own job."
    )


class EventsTrimmed(RelevoError):
    message = (
        "Events of queue {queue!r} after {last_id} were trimmed before they were read; the oldest one left is "
        "{first_id}. Resume from there, and read more often or with a larger `count`."
    )


class OutboxUnavailable(RelevoError):
    message = (
        "The outbox table {table!r} cannot be used: {reason}. Create it (`OutboxTable.create` or a migration), or "
        "correct the engine's URL. What was committed stays there until it can be sent."
    )


class DrainStuck(RelevoError, TimeoutError):
    message = (
        "Queue {queue!r} was not empty after {waited_s} s and {ran} runs; left: {left}. Look for a handler that "
        "hangs, jobs that enqueue each other endlessly, or a worker elsewhere that holds jobs; pass a larger "
        "`timeout_s` if it only needs longer."
    )


# --- servers of our own -------------------------------------------------------------------------------------------


class EmbeddedServerFailed(RelevoError):
    message = "The embedded server did not start on port {port}: {reason}. Its log is {log}."


class EmbeddedServerUnavailable(RelevoError):
    message = "The embedded server cannot run on this machine: {reason}. Run your own Redis or Valkey and pass its URL."


class EmbeddedServerMissing(RelevoError):
    message = "No embedded server runs in {folder}: start one with `EmbeddedServer({folder!r}).start()`."


class PortTaken(RelevoError):
    message = "Port {port} of 127.0.0.1 is taken by another program: choose another port, or none to use a free one."


class CannotListen(RelevoError):
    message = "Cannot listen on {host}:{port}: {reason}. Choose another port (0 finds a free one), or another host."


class DataFolderInUse(RelevoError):
    message = (
        "The data folder {folder} is in use by the embedded server with process id {pid} on port {port}: use that "
        "one with `EmbeddedServer.attach({folder!r})`, stop it with `kill {pid}`, or choose another folder."
    )


class PlatformRunning(RelevoError):
    message = (
        "`relevo up` runs in {folder} already (process {pid}, {url}): use that one, stop it with "
        "Ctrl-C in its terminal, or start another with `--data`."
    )


class ServiceEnded(RelevoError):
    message = (
        "The {service} of this platform stopped unexpectedly: {reason}. The rest was stopped too; start again with "
        "`relevo up`."
    )


class StoryStuck(RelevoError):
    message = "The demo waited {waited_s:.0f} s for {what}: the machine is very busy, or this is a bug worth reporting."

"""What the engine, its servers and its tools raise."""

from __future__ import annotations

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
            moment = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
            retry_after_s = (moment - datetime.now(UTC)).total_seconds()
        self.wait_ms = max(0, int((retry_after_s or 0.0) * 1000))
        super().__init__(f"to be tried again in {self.wait_ms / 1000:.1f} s")


class UnknownTask(RelevoError, UnrecoverableError):
    """No task is named {name!r} here (there are: {known}): deploy the worker that has it, then replay the dead letter."""


class BadTaskData(RelevoError, UnrecoverableError):
    """The job of task {task!r} is no call: {reason}. Send a dict of arguments by name, or `{{"args": [], "kwargs": {{}}}}`."""


class TaskTimedOut(RelevoError, TimeoutError):
    """The task {task!r} ran longer than its {timeout_s} s: raise `timeout_s`, or make it shorter."""


class JobTimedOut(RelevoError, TimeoutError):
    """The run of job {job_id!r} took longer than {timeout_s} s: raise `job_timeout_s` on the worker, or make it shorter."""


class JobCancelled(RelevoError):
    """Job {job_id!r} was cancelled."""


# --- what the caller passed ---------------------------------------------------------------------------------------


class BadArgument(RelevoError, ValueError):
    """{argument}={value!r} cannot be used: {reason}. {remedy}"""


# ChasquiMQ answers some wrong types with a ValueError and some data with an OverflowError: whatever a program written for it
# catches, it catches here too.


class WrongType(RelevoError, TypeError, ValueError):
    """{argument}={value!r} is a {kind}: {remedy}"""


class NotEncodable(RelevoError, TypeError, ValueError, OverflowError):
    """The data of job {job!r} cannot be written as msgpack: {reason}. Use dict, list, str, bytes, int (64 bit), float,
    bool and None; turn dates into text (`.isoformat()`), sets into lists and Decimal or UUID into `str()`."""


class PayloadTooLarge(RelevoError, ValueError):
    """The data of job {job!r} is {size} bytes, the limit is {limit}: store it elsewhere and send a reference, or raise
    `max_payload_bytes` on the queue and on its workers."""


class NameTooLong(RelevoError, ValueError):
    """The job name {name!r} is {size} bytes, the limit is 256: names are labels, put the rest into the data."""


class DelayTooLong(RelevoError, ValueError):
    """A delay of {delay_s} s is over the limit of {limit_s} s: raise `max_delay_secs` on the queue, 0 turns it off."""


class BadUrl(RelevoError, ValueError):
    """The Redis address {url!r} cannot be used: {reason}. Write redis://, rediss://, unix://, redis+cluster:// or
    redis+sentinel://host:port,host:port/master-name."""


class BadCron(RelevoError, ValueError):
    """The cron expression {expression!r} cannot be used: {reason}. {remedy}"""


class UnknownZone(RelevoError, ValueError):
    """The time zone {zone!r} is unknown: write "UTC", an offset such as "+05:30", or an IANA name in its exact case such
    as "America/New_York"."""


class BadInterval(RelevoError, ValueError):
    """An interval of {value!r} ms cannot be used: write a whole number of milliseconds, at least 1."""


class NoSuchSchedule(RelevoError, KeyError):
    """Queue {queue!r} has no schedule {key!r}: `Queue.get_repeatable_jobs` lists the keys there are."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0])


class NeverFires(RelevoError, ValueError):
    """The schedule {schedule!r} would never fire: {reason}. {remedy}"""


class BadTask(RelevoError, ValueError):
    """The function {task!r} cannot be a task: {reason}. {remedy}"""


class BadFlow(RelevoError, ValueError):
    """The flow cannot be used: {reason}. {remedy}"""


class BadTarget(RelevoError, ValueError):
    """The target {target!r} cannot be worked for: {reason}. {remedy}"""


class BadBatchOutcome(RelevoError):
    """The batch handler returned {given} outcomes for {wanted} jobs: return one for each, in their order, or None."""


class DependencyMissing(RelevoError, ImportError):
    """{what} needs the package {package!r}, which is not installed: `pip install '{extra}'`."""


# --- what the wire held -------------------------------------------------------------------------------------------


class Undecodable(RelevoError, ValueError):
    """These {size} bytes are not a {what}: {reason}."""


# --- what the server said -----------------------------------------------------------------------------------------


class QueueFull(RelevoError):
    """Queue {queue!r} holds {length} jobs, its cap is {cap}: add workers, raise `max_stream_len`, or retry later."""


class QueueBusy(RelevoError):
    """Queue {queue!r} cannot be deleted while workers hold {running} of its jobs: pause it and wait until they are finished,
    or pass `force=True` to delete these as well."""


class ConnectionLost(RelevoError, ConnectionError):
    """The connection to {address} was lost: {reason}. Commands under way may or may not have been carried out."""


class Redirected(ConnectionLost):
    """{address} did not carry the command out: {reason}. The queue is looked up anew and the command sent again."""


class Unreachable(RelevoError, ConnectionError):
    """No Redis answers at {address} after {waited_s} s: {reason}. Start it, or correct `redis_url`."""


class AddUncertain(RelevoError):
    """The connection was lost while job {job_id!r} was being delayed, and it is already due: it may have been added.
    Pass `job_id=` to make a delayed add safe to repeat."""


class ServerRefused(RelevoError):
    """Redis refused {command}: {reason}."""


class NotMeasurable(RelevoError):
    """{address} is not measured: {reason}. {remedy}"""


class ResultTimeout(RelevoError, TimeoutError):
    """No result of job {job_id!r} within {timeout_s} s: it may still be waiting or running, its handler may have
    returned None, or its worker runs without `store_results=True`."""


class JobDead(RelevoError, TimeoutError):
    """Job {job_id!r} will give no result: it was dead-lettered ({reason}). Look at it with `Queue.peek_dlq`, replay it with
    `Queue.replay_dlq`."""


class NoQueue(RelevoError):
    """Job {job_id!r} is not bound to a queue: only jobs returned by `Queue.add` can wait for their result."""


class NotRunning(RelevoError):
    """Job {job_id!r} is not running here: only a handler can report progress or write to the log of its own job."""


class EventsTrimmed(RelevoError):
    """Events of queue {queue!r} after {last_id} were trimmed before they were read; the oldest left is {first_id}.
    Resume from there, and read more often or with a larger `count`."""


class OutboxUnavailable(RelevoError):
    """The outbox table {table!r} cannot be used: {reason}. Create it (`OutboxTable.create` or a migration), or correct the
    engine's URL; what was committed stays there until it can be sent."""


class DrainStuck(RelevoError, TimeoutError):
    """Queue {queue!r} was not empty after {waited_s} s and {ran} runs; left: {left}. A handler that hangs, jobs that enqueue
    each other for ever, or a worker elsewhere that holds jobs: pass `timeout_s` if it only needs longer."""


# --- servers of our own -------------------------------------------------------------------------------------------


class EmbeddedServerFailed(RelevoError):
    """The embedded server did not start on port {port}: {reason}. Its log is {log}."""


class EmbeddedServerUnavailable(RelevoError):
    """The embedded server cannot run on this machine: {reason}. Run a Redis or Valkey of your own and pass its URL."""


class EmbeddedServerMissing(RelevoError):
    """No embedded server runs in {folder}: start one with `EmbeddedServer({folder!r}).start()`."""


class PortTaken(RelevoError):
    """Port {port} of 127.0.0.1 is taken by another program: choose another, or none to have a free one found."""


class CannotListen(RelevoError):
    """No server can listen on {host}:{port}: {reason}. Choose another port (0 finds a free one), or another host."""


class DataFolderInUse(RelevoError):
    """The data folder {folder} is in use by the embedded server with process id {pid} on port {port}: use that one with
    `EmbeddedServer.attach({folder!r})`, end it with `kill {pid}`, or choose another folder."""


class ServiceEnded(RelevoError):
    """The {service} of this platform ended by itself: {reason}. The rest was stopped; start again with `relevo up`."""


class StoryStuck(RelevoError):
    """The demo waited {waited_s:.0f} s for {what} in vain: the machine is very busy, or this is a bug worth reporting."""

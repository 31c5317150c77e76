"""Writes jobs into the stream: all adds of one loop turn in one write, each write numbered so that none happens twice.

A write is one MULTI: the XADDs, and the write's number in a key of this producer. When the connection breaks before the
answer came, the keys tell which writes arrived; the others are sent again. Writes that are in flight together have a key each:
the server may have refused one and taken the next. ChasquiMQ asks Redis 8.6's IDMP for the same, which
remembers 100 ids, exists on no other server and costs half as much again (docs/decisions/0002).
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Sequence
from itertools import chain

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, ReplyError, bulk, command, head
from relevo.broker.scripts import script
from relevo.broker.transport import Outcome, Transport
from relevo.engine.job.job import Job
from relevo.engine.producing.job_encoder import EncodedJob
from relevo.engine.producing.pending_add import Entry, PendingAdd, StartedAdd
from relevo.engine.producing.scripted_adds import ScriptedAdds
from relevo.errors import ConnectionLost, QueueFull, RelevoError, ServerRefused
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.stream_writer")

ADD_CAPPED = script("add_capped", __name__)

# Far from the cap a write only asks for the length, and looks at the answer before the next one. That is safe while all
# producers together cannot add HEADROOM jobs within FRESH seconds; nearer than that a script counts before it adds.
HEADROOM = 100_000
FRESH = 0.1

_REMEMBERED_S = 3600
_CHUNK = 2000  # jobs in one MULTI: more would hold up the server for other clients
_IN_FLIGHT = 3
_LARGE = 100  # jobs in one call that are worth a write of their own: the server works on them while the caller goes on


class _Call:
    """One `add` or `add_bulk`, or a part of a long one. The caller hears back when the last of its parts has landed."""

    __slots__ = ("entries", "future", "parts")

    def __init__(self, entries: Sequence[Entry], future: asyncio.Future[None], parts: list[None] | None = None) -> None:
        self.entries = entries
        self.future = future
        self.parts = [None] if parts is None else parts
        """One item for each part that has not landed; all parts of a call share the list."""

    def split(self, at: int) -> tuple[_Call, _Call]:
        self.parts.append(None)
        return _Call(self.entries[:at], self.future, self.parts), _Call(self.entries[at:], self.future, self.parts)

    def landed(self) -> None:
        self.parts.pop()
        if not self.parts and not self.future.done():
            self.future.set_result(None)

    def failed(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class _Write:
    __slots__ = ("calls", "capped", "count", "data", "jobs", "number")

    def __init__(
        self, number: int, calls: list[_Call | StartedAdd], data: bytes, count: int, jobs: int, capped: bool
    ) -> None:
        self.number = number
        self.calls = calls
        self.data = data
        self.count = count
        self.jobs = jobs
        self.capped = capped


class StreamWriter:
    """One producer of one queue: the way in for all its jobs."""

    def __init__(self, link: Link, keys: QueueKeys, scripted: ScriptedAdds, *, cap: int) -> None:
        self.producer: str = str(uuid.uuid4())
        self._link = link
        self.queue: str = keys.queue
        self._keys = keys
        self._scripted = scripted
        self._cap = cap
        self._loop = asyncio.get_running_loop()
        self._calls: deque[_Call | StartedAdd] = deque()
        self._writes: deque[_Write] = deque()
        self._number = 0
        self._scheduled = False
        self._recovering: asyncio.Task[None] | None = None
        self._trouble = False
        self._refusal: ReplyError | None = None
        self._refused_since: float | None = None
        self._length = 0
        self._length_at = 0.0
        # The answers come in the order of the writes, so that numbers in flight follow one another: no two share a key.
        self._sent_keys = [keys.sent(f"{self.producer}:{slot}") for slot in range(_IN_FLIGHT)]
        self._marks = [head(5, "SET", key) for key in self._sent_keys]
        self._counted_key = keys.sent(self.producer)
        self._named = head(7, "XADD", keys.stream, "*", "d")
        self._nameless = head(5, "XADD", keys.stream, "*", "d")
        self._opening = command("XLEN", keys.stream) + command("MULTI")
        self._closing = bulk(b"EX") + bulk(b"%d" % _REMEMBERED_S) + command("EXEC")
        self._name_tails: dict[bytes, bytes] = {}

    async def send(self, jobs: Sequence[EncodedJob]) -> None:
        """Adds jobs of any kind, and picks the way of each: plain ones are written here, with whatever else is added in this
        turn of the loop; those that need more go by script."""
        # Beside ids of the caller the plain ones travel by their ids too: one script then decides for all.
        by_id = any(each.by_id and each.run_at is None for each in jobs)
        plain = [] if by_id else [(each.envelope, each.name) for each in jobs if each.plain]
        special = [each for each in jobs if by_id or not each.plain]
        if plain and special:
            await asyncio.gather(self.add(plain), self._scripted.send(special))
        elif plain:
            await self.add(plain)
        elif special:
            await self._scripted.send(special)

    def add(self, entries: Sequence[Entry]) -> asyncio.Future[None]:
        """Done when Redis has the jobs; fails with `QueueFull` when they would pass the cap, and then none is added."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._calls.append(_Call(entries, future))
        if len(entries) >= _LARGE:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)
        return future

    def add_one(self, job: Job, entry: Entry) -> PendingAdd:
        """`add` for a single plain job, with the job as its result; it begins when it is awaited."""
        pending = PendingAdd(loop=self._loop)  # without an `__init__` of its own: it would cost as much as the rest
        pending.job, pending.entries, pending.writer = job, (entry,), self
        return pending

    def begin(self, add: StartedAdd) -> None:
        self._calls.append(add)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    async def close(self) -> None:
        """Waits for what somebody still waits for; the link's `wait` bounds it."""
        while (last := self._last_awaited()) is not None:
            ended = asyncio.Event()  # not `asyncio.wait`, which takes a SteppedAdd for a coroutine
            last.future.add_done_callback(lambda _, ended=ended: ended.set())
            await ended.wait()
        self._calls.clear()
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.wait([self._recovering])

    def _last_awaited(self) -> _Call | StartedAdd | None:
        """Not one that was cancelled: nobody hears what becomes of it."""
        under_way = chain(reversed(self._calls), *(reversed(write.calls) for write in reversed(self._writes)))
        return next((call for call in under_way if not call.future.done()), None)

    # --- writing ---------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._scheduled = False
        if self._recovering is not None or not self._calls:
            return
        transport = self._link.open_transport
        if transport is None:
            self._recover()
            return
        while self._calls and len(self._writes) < _IN_FLIGHT:
            write = self._next_write()
            if write is None:
                return
            self._writes.append(write)
            self._submit(write, transport)

    def _submit(self, write: _Write, transport: Transport) -> None:
        transport.submit(write.data, write.count, lambda outcome: self._on_reply(write, transport, outcome))

    def _next_write(self) -> _Write | None:
        """Takes as many calls as fit into one write; None when it has to wait for the writes under way."""
        under_way = sum([write.jobs for write in self._writes]) if self._writes else 0
        known = self._loop.time() - self._length_at < FRESH
        roomy = known and self._length + under_way + len(self._calls[0].entries) + HEADROOM < self._cap
        if not roomy and self._writes:
            return None  # a counted write stands alone: `sent` keeps the verdicts of one such write only
        self._number += 1
        calls: list[_Call | StartedAdd] = []
        jobs = 0
        while self._calls and jobs < _CHUNK:
            call = self._calls[0]
            size = len(call.entries)
            if calls and jobs + size > _CHUNK:
                break
            if roomy and size > _CHUNK and isinstance(call, _Call):
                call, self._calls[0] = call.split(_CHUNK)
                size = _CHUNK
            else:
                self._calls.popleft()
            calls.append(call)
            jobs += size
        return self._plain_write(calls, jobs) if roomy else self._capped_write(calls, jobs)

    def _plain_write(self, calls: list[_Call | StartedAdd], jobs: int) -> _Write:
        parts = [self._opening]
        add = parts.append
        named, nameless, tails = self._named, self._nameless, self._name_tails
        for call in calls:
            for envelope, name in call.entries:
                if name:
                    tail = tails.get(name)
                    if tail is None:
                        tail = self._tail(name)
                    add(b"%b$%d\r\n%b\r\n%b" % (named, len(envelope), envelope, tail))
                else:
                    add(b"%b$%d\r\n%b\r\n" % (nameless, len(envelope), envelope))
        number = b"%d" % self._number
        add(b"%b$%d\r\n%b\r\n%b" % (self._marks[self._number % _IN_FLIGHT], len(number), number, self._closing))
        return _Write(self._number, calls, b"".join(parts), jobs + 4, jobs, capped=False)

    def _tail(self, name: bytes) -> bytes:
        if len(self._name_tails) > 1000:  # names are few; a caller who makes them up must not fill our memory
            self._name_tails.clear()
        tail = self._name_tails[name] = bulk(b"n") + bulk(name)
        return tail

    def _capped_write(self, calls: list[_Call | StartedAdd], jobs: int) -> _Write:
        arguments: list[Argument] = [self._cap, self._number, _REMEMBERED_S]
        for call in calls:
            arguments.append(len(call.entries))
            for entry in call.entries:
                arguments.extend(entry)
        data = self._link.script_call(ADD_CAPPED, [self._keys.stream, self._counted_key], arguments)
        return _Write(self._number, calls, data, 1, jobs, capped=True)

    # --- what became of it -----------------------------------------------------------------------------------------

    def _on_reply(self, write: _Write, transport: Transport, outcome: Outcome) -> None:
        if write not in self._writes:
            return  # given up meanwhile: its callers have been told
        if isinstance(outcome, ConnectionLost):
            self._recover()
            return
        last = outcome[-1]
        if last.__class__ is ReplyError:
            error: ReplyError = next(reply for reply in outcome if reply.__class__ is ReplyError)
            if self._link.elsewhere(error, transport):
                self._recover(error)
                return
            self._writes.remove(write)
            self._fail(write, ServerRefused(command="the add", reason=str(error)))
        else:
            self._writes.remove(write)
            self._length_at = self._loop.time()
            self._refused_since = None
            self._link.accepted()
            if write.capped:
                self._length = last[0]
                self._judge(write, last[1])
            else:
                self._length = outcome[0] + write.jobs if isinstance(outcome[0], int) else 0
                if ReplyError in map(type, last):
                    refused = next(reply for reply in last if reply.__class__ is ReplyError)
                    self._fail(write, ServerRefused(command="the add", reason=str(refused)))
                else:
                    for call in write.calls:
                        call.landed()
        if self._calls and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _judge(self, write: _Write, verdicts: bytes) -> None:
        for call, verdict in zip(write.calls, verdicts, strict=True):
            if verdict == ord("1"):
                call.landed()
            else:
                call.failed(QueueFull(queue=self._keys.queue, length=self._length, cap=self._cap))

    @staticmethod
    def _fail(write: _Write, error: Exception) -> None:
        for call in write.calls:
            call.failed(error)

    # --- after a loss ----------------------------------------------------------------------------------------------

    def _recover(self, refusal: ReplyError | None = None) -> None:
        self._trouble = True
        if refusal is not None:
            self._refusal = refusal
            self._refused_since = self._refused_since or time.monotonic()
        if self._recovering is None:
            self._recovering = self._loop.create_task(self._resume(), name="relevo-stream-writer-resume")

    async def _resume(self) -> None:
        """Waits for the connection, learns which writes arrived, sends the others again; gives up with the link, or when the
        server has refused for as long as the link waits."""
        started = time.monotonic()
        while self._trouble:  # set again when the connection breaks once more while we are at it
            try:
                if self._refusal is not None:
                    refusal, self._refusal = self._refusal, None
                    await self._link.recover(refusal)
                    self._heed_wait(refusal)
                transport = await self._link.ready()
                self._trouble = False
                if self._writes:
                    replies: Reply = await self._link.call("MGET", self._counted_key, *self._sent_keys)
                    number, _, verdicts = (replies[0] or b"0").partition(b":")
                    self._arrived({int(reply) for reply in replies[1:] if reply}, int(number), verdicts)
                    left, self._writes = self._writes, deque()
                    for write in left:
                        self._resend(write, transport)
            except RelevoError as failure:
                self._trouble = isinstance(failure, ConnectionLost) and not self._link.closed
                if not self._trouble:
                    self._give_up(failure)
            except Exception as failure:
                log.exception("queue %s: adds cannot be sent again", self._keys.queue)
                self._trouble = False
                self._give_up(failure)  # whoever waits would wait for ever
        waited = time.monotonic() - started
        if waited > 0.5:
            log.info("queue %s: adds go on after %.1f s", self._keys.queue, waited)
        self._recovering = None
        self._flush()

    def _heed_wait(self, refusal: ReplyError) -> None:
        wait = self._link.wait
        if wait is not None and self._refused_since is not None and time.monotonic() - self._refused_since >= wait:
            raise ServerRefused(command="the add", reason=str(refusal))

    def _arrived(self, numbers: set[int], counted: int, verdicts: bytes) -> None:
        """`numbers` are those of plain writes that the server took; `counted` is that of the last one it counted."""
        for write in tuple(self._writes):
            if write.capped and write.number == counted:
                self._writes.remove(write)
                self._judge(write, verdicts)
            elif not write.capped and write.number in numbers:
                self._writes.remove(write)
                for call in write.calls:
                    call.landed()

    def _resend(self, write: _Write, transport: Transport) -> None:
        """Under a new number: a later write may have arrived, and its number says nothing of this one. Packed anew: a
        script's hash may differ on the server we are connected to now."""
        self._number += 1
        pack = self._capped_write if write.capped else self._plain_write
        again = pack(write.calls, write.jobs)
        self._writes.append(again)
        self._submit(again, transport)

    def _give_up(self, failure: Exception) -> None:
        for write in self._writes:
            self._fail(write, failure)
        for call in self._calls:
            call.failed(failure)
        self._writes.clear()
        self._calls.clear()
        self._refused_since = None

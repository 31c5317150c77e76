"""Sends what transactions have left in the outbox, in order for each queue; see docs/how-to/outbox.md for what it promises."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple, Self, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from relevo.arguments import instance, positive, seconds
from relevo.broker.address import CredentialProvider
from relevo.engine.queue import Queue
from relevo.engine.service.exit_signals import catch_exit_signals
from relevo.engine.service.loop import AGAIN, Loop
from relevo.engine.service.signals import Signal
from relevo.errors import OutboxUnavailable, QueueFull, RelevoError, WrongType
from relevo.outbox.entry import Entry
from relevo.outbox.store import Line, Store
from relevo.outbox.table import OutboxTable
from relevo.wire.ids import IdMint
from relevo.wire.payload import RAW
from relevo.wire.retry import RetryDefaults

log = logging.getLogger("relevo.outbox")

T = TypeVar("T")

_AT_ONCE_S = 0.002
_LAST_WORDS_S = 10.0
_LINE_RETRY = RetryDefaults(initial_ms=1_000, max_ms=60_000, jitter_ms=100)
_ASIDE_RETRY = RetryDefaults(initial_ms=10_000, max_ms=3_600_000, jitter_ms=1_000)
_ERROR_LENGTH = 2_000


class RelayTick(NamedTuple):
    """One look at the outbox: jobs sent, and rows that could not be sent and were put off."""

    sent: int
    put_off: int


@dataclass
class _Outcome:
    """What became of one line."""

    sent: list[int] = field(default_factory=list[int])
    untouched: list[int] = field(default_factory=list[int])
    late: tuple[Entry, Exception] | None = None
    """The entry at which the whole line has to wait: Redis is away, the queue is full."""
    refused: list[tuple[Entry, Exception]] = field(default_factory=list[tuple[Entry, Exception]])
    """Entries that can never be sent as they are; the line goes on without them."""


class _RawQueue(Queue):
    _codec = RAW  # payloads were encoded at the add


class OutboxRelay(Loop):
    """Sends committed jobs to their queues and takes their rows out. Any number of relays may run, anywhere.

        async with OutboxRelay(engine, table, redis_url="redis://127.0.0.1:6379"):
            ...                                     # beside the application
        await OutboxRelay(engine, table).run()      # or as a process of its own, until SIGTERM

    Takes a SQLAlchemy `Engine` (used on a thread) or `AsyncEngine`. Looks every `every` seconds, and at once when a transaction
    of this process commits. A relay that dies leaves what it held to the others after `hold_s`.
    """

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        table: OutboxTable,
        *,
        redis_url: str = "redis://127.0.0.1:6379",
        tls: bool = False,
        credential_provider: CredentialProvider | None = None,
        max_stream_len: int | None = None,
        max_payload_bytes: int | None = None,
        every: float = 1.0,
        batch: int = 500,
        hold_s: float = 30.0,
    ) -> None:
        super().__init__("outbox", every=seconds("every", every))
        self.relayed: Signal[RelayTick] = Signal()
        """Emitted after each look, also one that found nothing."""
        if not isinstance(engine, Engine | AsyncEngine):  # pyright: ignore[reportUnnecessaryIsInstance]
            expected, remedy = "Engine or AsyncEngine", "Pass what `create_engine` returns."
            raise WrongType(argument="engine", value=engine, expected=expected, remedy=remedy)
        self._engine = engine
        self._table = instance("table", table, OutboxTable)
        self._hold_s = seconds("hold_s", hold_s)
        self.store: Store = Store(table, hold_ms=int(self._hold_s * 1000), batch=positive("batch", batch))
        self._queues: dict[str, Queue] = {}
        self._make_queue = partial(
            _RawQueue,
            redis_url=redis_url,
            tls=tls,
            credential_provider=credential_provider,
            max_stream_len=max_stream_len,
            max_payload_bytes=max_payload_bytes,
            max_delay_secs=0,  # checked at the add; the wait in the outbox must not make a delay too long
            wait_s=self._hold_s / 2,  # give up while the hold still lasts
        )
        self._make_queue("outbox")  # a bad address is told here and not at every look
        self._mint = IdMint()
        self._one_at_a_time = asyncio.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._eager = self.every
        self._available = True
        self._unlisten: Callable[[], None] = lambda: None

    # --- life ------------------------------------------------------------------------------------------------------------

    async def run(self, *, handle_signals: bool = True) -> None:
        """Relays until cancelled, SIGINT or SIGTERM."""
        ended = asyncio.Event()
        restore = catch_exit_signals(lambda _: ended.set()) if handle_signals else lambda: None
        try:
            async with self:
                await ended.wait()
        finally:
            restore()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def start(self) -> None:
        if self._task is None:
            loop = asyncio.get_running_loop()

            def committed() -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(self._look_soon)

            self._unlisten = self._table.commits.listen(committed)
        super().start()

    async def close(self) -> None:
        """Ends the look under way and closes the connections to Redis; the engine is yours."""
        self._unlisten()
        if self._task is not None:
            try:
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self.stop()
            except TimeoutError:
                log.warning("the outbox relay was cut short; what it held is sent after %.0f s", self._hold_s)
                self.cancel()
        queues, self._queues = self._queues, {}
        await asyncio.gather(*(queue.close() for queue in queues.values()))
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None

    def _look_soon(self) -> None:
        self._eager = _AT_ONCE_S
        self.wake()

    # --- looking -----------------------------------------------------------------------------------------------------------

    async def tick(self) -> float | None:
        looked = await self._look()
        self.relayed.emit(looked)
        if looked.sent:
            return AGAIN
        # After a ring more than one look, soon and then less often: a connection's commit is told a moment too early.
        pause, self._eager = min(self._eager, self.every), min(self._eager * 2, self.every)
        return pause

    async def drain(self) -> int:
        """Sends everything that can be sent now, and returns how many jobs that were. For cron jobs, commands and tests."""
        sent = 0
        while (looked := await self._look()).sent:
            sent += looked.sent
        return sent

    async def waiting(self) -> int:
        """How many jobs are in the outbox."""
        return await self._with_database(self.store.waiting)

    async def _look(self) -> RelayTick:
        async with self._one_at_a_time:
            due = await self._with_database(self.store.due)
            if not due:
                return RelayTick(0, 0)
            token = self._mint()
            lines = await self._with_database(lambda connection: self.store.hold(connection, due, token))
            outcomes = await asyncio.gather(*(self._send_line(line) for line in lines))
            await self._with_database(lambda connection: self._settle(connection, outcomes, token))
            put_off = sum(len(each.refused) + (each.late is not None) for each in outcomes)
            return RelayTick(sum(len(each.sent) for each in outcomes), put_off)

    # --- sending -----------------------------------------------------------------------------------------------------------

    async def _send_line(self, line: Line) -> _Outcome:
        """Sends one queue's jobs in their order; those of one kind that stand together travel together."""
        outcome = _Outcome()
        parts = [list(part) for _, part in groupby(line.entries, key=lambda entry: entry.special)]
        for part in parts:
            if outcome.late is None:
                await self._send(line.queue, part, outcome)
            else:
                outcome.untouched += [entry.seq for entry in part]
        return outcome

    async def _send(self, queue_name: str, entries: Sequence[Entry], outcome: _Outcome) -> None:
        now_ms = time.time_ns() // 1_000_000
        try:
            await self._queue(queue_name).add_bulk([entry.as_add(now_ms) for entry in entries])
        except (ValueError, TypeError, QueueFull) as error:
            if len(entries) > 1:  # the one that is at fault, or as many as there is room for, are found by halves
                await self._send_halves(queue_name, entries, outcome)
            elif isinstance(error, QueueFull):
                outcome.late = (entries[0], error)
            else:
                outcome.refused.append((entries[0], error))
        except (RelevoError, OSError) as error:
            outcome.late = (entries[0], error)
            outcome.untouched += [entry.seq for entry in entries[1:]]
        else:
            outcome.sent += [entry.seq for entry in entries]

    async def _send_halves(self, queue_name: str, entries: Sequence[Entry], outcome: _Outcome) -> None:
        middle = len(entries) // 2
        await self._send(queue_name, entries[:middle], outcome)
        if outcome.late is None:
            await self._send(queue_name, entries[middle:], outcome)
        else:
            outcome.untouched += [entry.seq for entry in entries[middle:]]

    def _queue(self, name: str) -> Queue:
        if name not in self._queues:
            self._queues[name] = self._make_queue(name)
        return self._queues[name]

    def _settle(self, connection: Connection, outcomes: Sequence[_Outcome], token: str) -> None:
        for outcome in outcomes:
            if outcome.sent:
                self.store.take_out(connection, outcome.sent)
            if outcome.untouched:
                self.store.let_go(connection, outcome.untouched, token)
            for entry, error in outcome.refused:
                wait_ms = _ASIDE_RETRY.wait_ms(entry.attempts + 1)
                self._put_off(connection, entry, error, token, wait_ms, aside=True)
            if outcome.late is not None:
                entry, error = outcome.late
                wait_ms = _LINE_RETRY.wait_ms(entry.attempts + 1)
                self._put_off(connection, entry, error, token, wait_ms, aside=False)

    def _put_off(
        self, connection: Connection, entry: Entry, error: Exception, token: str, wait_ms: int, *, aside: bool
    ) -> None:
        what = "set aside" if aside else "and all behind it put off"
        log.warning(
            "job %s of queue %s could not be sent, %s for %.0f s: %s",
            entry.job_id,
            entry.queue,
            what,
            wait_ms / 1000,
            error,
        )
        text = f"{type(error).__name__}: {error}"[:_ERROR_LENGTH]
        self.store.put_off(connection, entry.seq, token, wait_ms=wait_ms, error=text, aside=aside)

    # --- the database --------------------------------------------------------------------------------------------------------

    async def _with_database(self, step: Callable[[Connection], T]) -> T:
        """One step in one transaction, on the loop with an async engine, else on a thread of ours."""
        try:
            if isinstance(self._engine, AsyncEngine):
                async with self._engine.begin() as connection:
                    done = await connection.run_sync(step)
            else:
                if self._thread is None:
                    self._thread = ThreadPoolExecutor(1, thread_name_prefix="relevo-outbox")
                call = asyncio.get_running_loop().run_in_executor(self._thread, _in_transaction, self._engine, step)
                done = await call
        except SQLAlchemyError as error:
            unavailable = OutboxUnavailable(table=self._table.table.name, reason=_in_short(error))
            if self._available:
                log.warning("%s", unavailable)
            self._available = False
            raise unavailable from error
        self._available = True
        return done


def _in_transaction(engine: Engine, step: Callable[[Connection], T]) -> T:
    with engine.begin() as connection:
        return step(connection)


def _in_short(error: SQLAlchemyError) -> str:
    """What the driver said, without the statement: that is in the chain for those who want it."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__

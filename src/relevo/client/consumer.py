"""The consumer loop: claims by long poll, runs your handler, keeps the claims alive meanwhile, settles, and ends in order."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from relevo.arguments import checked_name, function, positive, seconds
from relevo.client.failures import own_frames, told
from relevo.client.request import Call
from relevo.client.settling import settle_call
from relevo.contract.claims import Claimed, Settled
from relevo.errors import (
    ClaimLost,
    KeyExpired,
    NotFound,
    PermissionDenied,
    RelevoError,
    Unauthenticated,
    WorkError,
    WrongType,
)

log = logging.getLogger("relevo.consumer")

T = TypeVar("T")

Handler = Callable[[Claimed], Awaitable[Any] | Any]
"""Takes a message; what it returns is the result. A plain function runs in a thread."""

_HOPELESS = (Unauthenticated, KeyExpired, PermissionDenied, NotFound)
"""Trying again does not make these better: they end the consumer."""
_REASON = 2000


class Fail(Exception):
    """Raise this from a handler to fail the message with a reason of your own; `dead=True` allows no more tries. What you raise
    it `from` is told as the error."""

    def __init__(self, reason: str, *, dead: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.dead = dead


class Release(Exception):
    """Raise this from a handler to give the message back untouched: somebody else may have it, and the try does not count."""


def _require_json(result: Any) -> None:
    """What cannot be sent is the handler's fault, and fails the message."""
    try:
        msgspec.json.encode(result)
    except (TypeError, ValueError, OverflowError) as error:
        kind = type(result).__qualname__
        raise TypeError(f"the handler returned {kind}, which cannot be sent as JSON: {error}") from None


class ClaimClient(Protocol):
    """What a consumer needs of a client: `AsyncClient` has it."""

    async def claim(
        self,
        scope: str,
        queue: str,
        *,
        batch_size: int = ...,
        wait_s: float = ...,
        consumer: str | None = ...,
        labels: Mapping[str, str] | None = ...,
        subscription: str | None = ...,
    ) -> list[Claimed]: ...

    async def send(self, call: Call[T]) -> T: ...


class Consumer:
    """Works on one queue with up to `concurrency` handlers at once.

    - Claims as many as it has free places, waiting `wait_s` at the server for the first; never more than it can work on.
    - Extends each claim when half of its time is over, also while a handler in a thread blocks.
    - A handler that returns completes its message with what it returned; one that raises fails it (`Fail`, `Release` say how)
      with the error's type, message and traceback, and is logged as a warning.
      A claim that was lost meanwhile is logged, and its handler is cancelled.
    - The first SIGTERM or Ctrl-C (or `stop()`) ends claiming and lets handlers finish for `drain_s`; what is left then, or at a
      second signal, is cancelled and released.
    - While the server is away it waits and tries again; a key or queue that is gone ends it with that error.
    """

    def __init__(
        self,
        client: ClaimClient,
        scope: str,
        queue: str,
        handler: Handler,
        *,
        concurrency: int = 10,
        wait_s: float = 20.0,
        labels: Mapping[str, str] | None = None,
        subscription: str | None = None,
        consumer: str | None = None,
        drain_s: float = 30.0,
    ) -> None:
        if not inspect.iscoroutinefunction(getattr(client, "claim", None)):
            raise WrongType(
                argument="client", value=client, expected="AsyncClient", remedy="`Client.consume` makes one."
            )
        self._client = client
        self._scope = checked_name("scope", scope)
        self._queue = checked_name("queue", queue)
        function("handler", handler, expected="a function that takes a message")
        self._handler = handler
        self._concurrency = positive("concurrency", concurrency)
        self._wait_s = seconds("wait_s", wait_s, zero=True)
        self._labels = labels
        self._subscription = None if subscription is None else checked_name("subscription", subscription)
        own = f"{socket.gethostname()}:{os.getpid()}"
        self._consumer = own if consumer is None else checked_name("consumer", consumer)
        self._drain_s = seconds("drain_s", drain_s, zero=True)
        self._stopping = asyncio.Event()
        self._giving_up = asyncio.Event()
        self._freed = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self.settled: int = 0
        """Messages that were settled so far, however."""

    def stop(self) -> None:
        """Claims no more and lets handlers finish; a second call does not wait for them."""
        if self._stopping.is_set():
            self._giving_up.set()
        self._stopping.set()
        self._freed.set()

    async def run(self) -> None:
        """Works until it is stopped."""
        restore = self._listen()
        try:
            await self._claim_on()
        finally:
            await self._drain()
            restore()

    # --- claiming ---------------------------------------------------------------------------------------------------

    async def _claim_on(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            free = self._concurrency - len(self._running)
            if free <= 0:
                self._freed.clear()
                await self._freed.wait()
                continue
            try:
                messages = await self._claim(min(free, 1000))
                failures = 0
            except _HOPELESS:
                raise
            except RelevoError as error:
                pause = min(0.1 * 2**failures, 5.0)
                failures = min(failures + 1, 10)
                log.warning("%s/%s: %s; claiming again in %.1f s", self._scope, self._queue, error, pause)
                await self._pause(pause)
                continue
            for message in messages:
                task = asyncio.create_task(self._work(message), name=f"relevo-{message.id}")
                self._running[message.id] = task

    async def _claim(self, count: int) -> list[Claimed]:
        """One claim. A stop hangs up on a waiting one: the server then takes nothing for us, or gives it back."""
        claiming = asyncio.ensure_future(
            self._client.claim(
                self._scope,
                self._queue,
                batch_size=count,
                wait_s=self._wait_s,
                consumer=self._consumer,
                labels=self._labels,
                subscription=self._subscription,
            )
        )
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({claiming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not claiming.done():
                claiming.cancel()
                await asyncio.wait({claiming})
                return []
            return claiming.result()
        finally:
            stopping.cancel()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    # --- one message ------------------------------------------------------------------------------------------------

    async def _work(self, message: Claimed) -> None:
        lost = asyncio.Event()
        keeping = asyncio.create_task(self._keep(message, lost))
        try:
            verdict, options = await self._run(message, lost)
            if verdict is not None:
                await self._settle(message, verdict, options)
        finally:
            keeping.cancel()
            self._running.pop(message.id, None)
            self._freed.set()

    async def _run(self, message: Claimed, lost: asyncio.Event) -> tuple[str | None, dict[str, Any]]:
        """The verdict of the handler; None when the message is not ours any more."""
        running = asyncio.ensure_future(self._call(message))
        ends = [asyncio.ensure_future(event.wait()) for event in (lost, self._giving_up)]
        try:
            await asyncio.wait({running, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
                await asyncio.wait({running}, timeout=5)
                return (None, {}) if lost.is_set() else ("release", {})
            result = running.result()
            _require_json(result)
            return "complete", {} if result is None else {"result": result}
        except Release:
            return "release", {}
        except Fail as failure:
            error = failure.__cause__
            why = (
                {"reason": failure.reason[:_REASON]}
                if error is None
                else {"reason": failure.reason[:_REASON], "error": told(error)}
            )
            self._log_failure(message, why, error)
            return "fail", {**why, "dead": failure.dead}
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is why its message failed
            why = {"error": told(error)}
            self._log_failure(message, why, error)
            return "fail", why
        finally:
            for end in ends:
                end.cancel()

    def _log_failure(self, message: Claimed, why: Mapping[str, Any], error: BaseException | None) -> None:
        """With the traceback, from the first frame of the handler on."""
        parts: Mapping[str, str] = why.get("error", {})
        told_as = why.get("reason") or ": ".join(parts[name] for name in ("type", "message") if name in parts)
        place = {"scope": self._scope, "queue": self._queue, "message_id": message.id, "attempt": message.attempts}
        log.warning(
            "%s/%s: %s failed, attempt %d: %s",
            *place.values(),
            told_as,
            exc_info=None if error is None else (type(error), error, own_frames(error)),
            extra=place,
        )

    async def _call(self, message: Claimed) -> Any:
        try:
            if inspect.iscoroutinefunction(self._handler):
                return await self._handler(message)
            result = await asyncio.to_thread(self._handler, message)
            return await result if inspect.isawaitable(result) else result
        except SystemExit as error:  # it would end the consumer, and every other message with it
            raise Fail(f"the handler called sys.exit({error.code!r})") from error

    async def _keep(self, message: Claimed, lost: asyncio.Event) -> None:
        """Extends the claim at half of its time, as long as the handler runs."""
        until = message.claim_until / 1000
        lasts = max(0.5, until - time.time())
        while True:
            await asyncio.sleep(lasts / 2)
            try:
                extended = await self._send("extend", message, {})
            except ClaimLost as error:
                log.warning("%s", error)
                lost.set()
                return
            except RelevoError as error:
                log.warning("the claim on %s could not be extended yet: %s", message.id, error)
                lasts = max(0.5, until - time.time())
                continue
            until = (extended.claim_until or message.claim_until) / 1000
            lasts = max(0.5, until - time.time())

    async def _settle(self, message: Claimed, verdict: str, options: dict[str, Any]) -> None:
        try:
            await self._send(verdict, message, options)
        except ClaimLost as error:
            log.warning("%s", error)
        except WorkError as error:
            log.error("%s of %s was refused: %s", verdict, message.id, error)  # noqa: TRY400 - the sentence says it all
        else:
            self.settled += 1

    async def _send(self, verdict: str, message: Claimed, options: dict[str, Any]) -> Settled:

        told = {**options, "subscription": self._subscription}
        return await self._client.send(settle_call(self._scope, message, verdict, told))

    # --- ending -----------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        if not self._running:
            return
        log.info("%s/%s: waiting for %d handlers", self._scope, self._queue, len(self._running))
        tasks = set(self._running.values())
        giving_up = asyncio.ensure_future(self._giving_up.wait())
        deadline = time.monotonic() + self._drain_s
        while tasks and not giving_up.done() and (left := deadline - time.monotonic()) > 0:
            done, _ = await asyncio.wait({*tasks, giving_up}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            tasks -= done  # pyright: ignore[reportOperatorIssue] - a task of the set, or the event's
        giving_up.cancel()
        self._giving_up.set()
        if tasks:
            await asyncio.wait(tasks)

    def _listen(self) -> Callable[[], None]:
        """Signals end it, where nobody else looks after them."""
        loop = asyncio.get_running_loop()
        if threading.current_thread() is not threading.main_thread():
            return lambda: None
        taken: dict[signal.Signals, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            runner = getattr(getattr(before, "func", None), "__qualname__", "") == "Runner._on_sigint"
            if before in (signal.SIG_DFL, signal.default_int_handler) or runner:
                loop.add_signal_handler(number, self.stop)
                taken[number] = before

        def restore() -> None:
            for number, before in taken.items():
                loop.remove_signal_handler(number)
                signal.signal(number, before)

        return restore

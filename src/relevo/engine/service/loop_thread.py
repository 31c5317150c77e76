"""An event loop on a thread of its own, shared by the process: where calls of code without a loop (Django, scripts) run."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from relevo.errors import InsideLoop

T = TypeVar("T")


class LoopThread:
    """Starts with the first call and ends with the process. A forked child starts one of its own: threads do not survive a
    fork, and the parent's connections are not the child's."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, call: Callable[[], Coroutine[Any, Any, T]], what: str) -> T:
        """The result of the call, from whichever thread; `what` is named to those who should await instead."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise InsideLoop(call=what)
        loop = self._running()
        future: Future[T] = Future()
        # The coroutine is made on the loop's thread: what it looks up there is the loop's own, and Ctrl-C on this one, which
        # may come between any two steps, leaves none behind that nobody awaits.
        loop.call_soon_threadsafe(partial(_begin, loop, call, future))
        try:
            return future.result()
        except BaseException:  # also Ctrl-C while we wait: nobody wants the answer any more
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="relevo-sync", daemon=True)
                self._thread.start()
                atexit.register(_stop, self._loop, self._thread, os.getpid())
            return self._loop


def _begin(loop: asyncio.AbstractEventLoop, call: Callable[[], Coroutine[Any, Any, T]], future: Future[T]) -> None:
    if future.cancelled():
        return
    task = loop.create_task(call())
    task.add_done_callback(partial(_hand_over, future))
    future.add_done_callback(lambda ended: loop.call_soon_threadsafe(task.cancel) if ended.cancelled() else None)


def _hand_over(future: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        future.cancel()
        return
    error = task.exception()
    with suppress(InvalidStateError):  # whoever waited was interrupted in this moment
        if error is None:
            future.set_result(task.result())
        else:
            future.set_exception(error)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    """At the end of the process: a loop that is still at work while the interpreter is taken down would complain."""
    if os.getpid() == pid:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=2)


LOOP_THREAD = LoopThread()

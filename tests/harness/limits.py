"""Ends a test that takes too long: it fails alone, with the stacks of its threads and tasks, and the process goes on.

pytest-timeout says how long a test may take; at which pace is said here. When the time is over the machine is asked again: a
test that a busy machine holds up gets the rest of its time. What no signal can end is killed from outside (`watch.py`).
"""

from __future__ import annotations

import asyncio
import io
import signal
import sys
import threading
import time
import traceback
from typing import Any

import pytest

from tests.pace import limit, slowness

AGAIN = 20.0
"""Seconds until a test that was ended and has not, for instance in its fixtures, is ended once more."""

_ASKED_EVERY = 1.0
"""How long a pace is believed: a machine that was busy a moment ago may be quiet now."""


class Limits:
    """The timer of the test that runs in this process."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool | None:
        if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
            return None  # pytest-timeout's own
        began = time.monotonic()

        def ring(signum: int, frame: object) -> None:
            __tracebackhide__ = True
            rest = began + limit(settings.timeout) - time.monotonic()
            if rest > 0:
                signal.setitimer(signal.ITIMER_REAL, min(rest, _ASKED_EVERY))
                return
            signal.setitimer(signal.ITIMER_REAL, limit(AGAIN))
            took = time.monotonic() - began
            pytest.fail(
                f"TOOK TOO LONG: more than {settings.timeout:g} s, which are {took:.0f} s on this machine now "
                f"(it is {slowness():.1f} times slower than a quiet one).\n{stacks()}"
            )

        def cancel() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

        setattr(item, "cancel_timeout", cancel)  # noqa: B010 - what pytest-timeout calls when the test is over
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, settings.timeout)
        return True


def stacks() -> str:
    """Where every thread but this one is, and every task of the loop that runs here."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    written = io.StringIO()
    for ident, frame in sys._current_frames().items():  # pyright: ignore[reportPrivateUsage] - documented
        if ident != threading.get_ident():
            written.write(f"--- thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}")
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return written.getvalue()  # no loop runs
    for task in tasks:
        written.write(f"--- task {task.get_name()}\n")
        task.print_stack(file=written)
    return written.getvalue()

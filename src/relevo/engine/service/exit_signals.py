"""SIGINT and SIGTERM for processes of ours: the first asks to end in order, what a second means is up to the caller."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any


def catch_exit_signals(react: Callable[[str], None]) -> Callable[[], None]:
    """Calls `react` with the name of each SIGINT and SIGTERM, until the returned function is called.

    A signal that somebody else handles already (an application server, a test runner) is left to them; so are all of them
    outside the main thread, which Python does not deliver signals to.
    """
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    taken: dict[int, Any] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        if _is_nobodys(before):
            loop.add_signal_handler(number, react, number.name)
            taken[number] = before

    def restore() -> None:
        for number, before in taken.items():
            loop.remove_signal_handler(number)
            signal.signal(number, before)

    return restore


def _is_nobodys(handler: Any) -> bool:
    """Whether a signal still does what Python does by itself: `asyncio.run` has a SIGINT of its own, which would cancel the
    worker at the first Ctrl-C instead of asking it to end."""
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    return getattr(getattr(handler, "func", None), "__qualname__", "") == "Runner._on_sigint"

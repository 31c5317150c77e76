"""SIGINT and SIGTERM for processes of ours: the first asks to end in order, what a second means is up to the caller."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable


def catch_exit_signals(react: Callable[[str], None]) -> Callable[[], None]:
    """Calls `react` with the name of each SIGINT and SIGTERM, until the returned function is called.

    A signal that somebody else handles already (an application server, a test runner) is left to them; so are all of them
    outside the main thread, which Python does not deliver signals to.
    """
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    taken: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            loop.add_signal_handler(number, react, number.name)
            taken.append(number)

    def restore() -> None:
        for number in taken:
            loop.remove_signal_handler(number)

    return restore

"""The loop of code without one: what Ctrl-C leaves behind."""

import gc
import threading
from typing import Any

import pytest

from relevo.engine.service.loop_thread import LOOP_THREAD


async def here() -> str:
    return threading.current_thread().name


def test_a_call_runs_on_the_thread_of_the_loop() -> None:
    assert LOOP_THREAD.run(here, "here") == "relevo-sync"


def test_an_error_comes_back_to_the_caller() -> None:
    async def fails() -> None:
        raise KeyError("email")

    with pytest.raises(KeyError, match="email"):
        LOOP_THREAD.run(fails, "fails")


def test_an_interrupt_before_the_call_is_handed_over_leaves_no_coroutine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coroutine that nobody awaits says so, and warnings are errors here."""
    LOOP_THREAD.run(here, "here")
    loop: Any = LOOP_THREAD._loop  # pyright: ignore[reportPrivateUsage]

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_soon_threadsafe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            LOOP_THREAD.run(here, "here")
        gc.collect()
    assert LOOP_THREAD.run(here, "here") == "relevo-sync"

"""Ways to wait that are no guesses at time: a turn of the loop, until something is so, and for ever."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import NoReturn

from tests.pace import limit


async def turn() -> None:
    """Lets everything that is ready to run do so once."""
    await asyncio.sleep(0)


async def until(true: Callable[[], bool | Awaitable[bool]], *, timeout: float = 20.0) -> None:
    """Asks again and again. For what nobody tells: the state of another process, and health, which a probe asks as well.
    `timeout` is in seconds of a quiet machine."""
    async with asyncio.timeout(limit(timeout)):
        while True:
            answer = true()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(0.01)


async def forever() -> NoReturn:
    """What a handler does that is to be cancelled."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets this event")

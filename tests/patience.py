"""Ways to wait that are no guesses at time: a turn of the loop, and for ever."""

from __future__ import annotations

import asyncio
from typing import NoReturn


async def turn() -> None:
    """Lets everything that is ready to run do so once."""
    await asyncio.sleep(0)


async def forever() -> NoReturn:
    """What a handler does that is to be cancelled."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets this event")

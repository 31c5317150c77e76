"""The last act: everything that happened becomes tables, and the tables a page that stays after the demo."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.demo.house import LETTERS, NIGHT, PARCELS, House
from relevo.demo.size import Size
from relevo.errors import StoryStuck
from relevo.wire.keys import QueueKeys

_QUEUES = (PARCELS, LETTERS, NIGHT)
_SILENT_S = 300.0
"""How long the chronicler may say nothing: a slow machine makes it slow, and it says each table that is made."""


async def report(house: House, size: Size) -> str:
    """All of it once more, as tables and as a page: Spark reads the queues' events."""
    written = await _events_written(house)
    house.stage.news("Spark is started: that takes some seconds", "cyan")
    told = await _chronicle(house)
    if why := told.get("cannot"):
        house.epilogue = f"No report: {why}"
        return f"left out, as Spark cannot run here: {why}"
    house.tally.equal("events in Redis that are in the lake, once", written, told.get("taken"))
    house.tally.equal("tables that break what must be true of them", [], told.get("broken"))
    house.tally.equal("parcels delivered, as the report counts them", size.parcels, told.get("done", {}).get(PARCELS))
    house.epilogue = f"The report: {house.page}"
    return f"{written} events became tables and a page: {house.page}"


async def _chronicle(house: House) -> dict[str, Any]:
    """The last line that the chronicler says; those before are news."""
    arguments = ("-m", "relevo.demo.chronicler", ",".join(_QUEUES), str(house.folder / "lake"), str(house.page))
    chronicler = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "RELEVO_REDIS_URL": house.url},
    )
    assert chronicler.stdout is not None
    assert chronicler.stderr is not None
    complaints = asyncio.create_task(chronicler.stderr.read())
    said: dict[str, Any] = {}
    try:
        async with asyncio.timeout(_SILENT_S) as silence:
            async for line in chronicler.stdout:
                silence.reschedule(asyncio.get_running_loop().time() + _SILENT_S)
                said = json.loads(line)
                if news := said.get("news"):
                    house.stage.news(news, "cyan")
            await chronicler.wait()
    except TimeoutError:
        raise StoryStuck(what="the report", waited_s=_SILENT_S) from None
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            chronicler.terminate()
        await chronicler.wait()
        last = (await complaints).decode(errors="replace").strip().splitlines()
    if chronicler.returncode != 0:
        house.tally.equal(
            f"the chronicler ends well ({last[-1] if last else 'it said nothing'})", 0, chronicler.returncode
        )
    return said


async def _events_written(house: House) -> int:
    """As Redis counts them, now that nobody works."""
    written = 0
    for name in _QUEUES:
        keys = QueueKeys(name)
        link = Link(Address.parse(house.url), keys.tag, purpose="demo", wait=5)
        try:
            reply = await link.call(b"XLEN", keys.events)
        finally:
            await link.close()
        assert isinstance(reply, int)
        written += reply
    return written

"""A relay process that dies between sending jobs and taking their rows out: `doomed.py DATABASE_URL TABLE REDIS_URL`."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from sqlalchemy import Connection, create_engine

from relevo.outbox import OutboxRelay, OutboxTable


def die(connection: Connection, sent: Sequence[int]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(database_url: str, table_name: str, redis_url: str) -> None:
    relay = OutboxRelay(create_engine(database_url), OutboxTable(name=table_name), redis_url=redis_url, hold_s=1.0)
    relay.store.take_out = die
    await relay.drain()


asyncio.run(main(*sys.argv[1:]))

"""Connections that break under a task: it reads on where it was, and writes nothing twice."""

import asyncio
from typing import Any

import pytest

from relevo.pipeline.connector.feed import Feed
from relevo.pipeline.connector.offsets import NOTHING, EntryId
from relevo.pipeline.connector.options import SinkOptions, SourceOptions
from relevo.pipeline.connector.ranges import IdRange
from relevo.pipeline.connector.task import read_parts
from tests.servers.proxy import Fate, Proxy
from tests.servers.server import Server
from tests.spark.connector.filled import add_events, arrow_schema, directory_of
from tests.spark.connector.test_feed import jobs, made, written

BREAKS = [Fate.CUT_BEFORE, Fate.CUT_MIDWAY, Fate.CUT_AFTER, Fate.CUT_LATE]


@pytest.mark.parametrize("place", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("fate", BREAKS, ids=lambda fate: fate.name.lower())
async def test_a_broken_connection_neither_loses_nor_doubles_rows(
    redis86: Server, queue_name: str, fate: Fate, place: int
) -> None:
    async with Proxy(redis86.url, [Fate.PASS] * place + [fate]) as proxy:
        directory = directory_of(proxy.url)
        sink = SinkOptions.parse({"url": proxy.url, "queue": queue_name})
        feeding = Feed(directory, sink, write="w", partition=0, epoch=0)
        await asyncio.to_thread(feeding.write, made(0, 4500))
        assert proxy.cuts == 1
        await proxy.deliver_late()
        directory.close()
    assert written(redis86, queue_name) == jobs(0, 4500)


@pytest.mark.parametrize("chosen", [False, True], ids=["ours", "chosen"])
@pytest.mark.parametrize("fate", BREAKS, ids=lambda fate: fate.name.lower())
async def test_a_broken_connection_near_the_cap_does_neither(
    redis86: Server, queue_name: str, fate: Fate, chosen: bool
) -> None:
    async with Proxy(redis86.url, [Fate.PASS] * 3 + [fate]) as proxy:
        directory = directory_of(proxy.url)
        sink = SinkOptions.parse({"url": proxy.url, "queue": queue_name, "maxStreamLen": "5000"})
        feeding = Feed(directory, sink, write="w", partition=0, epoch=0)
        await asyncio.to_thread(feeding.write, made(0, 4500, chosen=chosen))
        assert proxy.cuts == 1
        await proxy.deliver_late()
        directory.close()
    assert written(redis86, queue_name) == jobs(0, 4500)


@pytest.mark.parametrize("fate", BREAKS[:3], ids=lambda fate: fate.name.lower())
async def test_a_reader_goes_on_where_it_was(redis86: Server, queue_name: str, fate: Fate) -> None:
    ids = add_events(redis86.url, queue_name, 2000)
    async with Proxy(redis86.url, [Fate.PASS] * 4 + [fate]) as proxy:
        source = SourceOptions.parse({"url": proxy.url, "pageRows": "300"})
        part = IdRange(f"{{chasqui:{queue_name}}}:events", NOTHING, EntryId.parse(ids[-1]))

        def read() -> list[Any]:
            return [
                row["_id"]
                for batch in read_parts(source, [part], arrow_schema("events"), None)
                for row in batch.to_pylist()
            ]

        assert await asyncio.to_thread(read) == ids
        assert proxy.cuts == 1

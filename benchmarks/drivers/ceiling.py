"""The server's own limit: a pipelining client that packs beforehand and does no work with what comes back."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.resp import command
from relevo.broker.transport import Transport, send

STREAM, GROUP = b"{chasqui:ceiling}:stream", b"default"
BODY = b"\x94\xba01M7GFST5K1XV11T30B34R29SN\xc4\x04\x81\xa1i\x01\xcf\x00\x00\x01\xa1\xe0\xfc\xe8\xb3\x00"


def adds(count: int, *, idmp: bool) -> bytes:
    producer = str(uuid.uuid4())
    parts: list[bytes] = []
    for i in range(count):
        options = ("IDMP", producer, f"{uuid.uuid4().hex[:26]}{i}", "MAXLEN", "~", 1_000_000) if idmp else ()
        parts.append(command("XADD", STREAM, *options, "*", "d", BODY, "n", "noop"))
    return b"".join(parts)


async def pipelined(transport: Transport, batches: list[bytes], size: int) -> float:
    started = time.perf_counter()
    waiting: list[asyncio.Task[object]] = []
    for batch in batches:
        waiting.append(asyncio.ensure_future(send(transport, batch, size)))
        if len(waiting) == 2:
            await waiting.pop(0)
    for each in waiting:
        await each
    return len(batches) * size / (time.perf_counter() - started)


async def main() -> None:
    task = json.load(sys.stdin)
    jobs, size = task["jobs"], 500
    link = Link(Address.parse(task["url"]), b"{chasqui:ceiling}", purpose="ceiling")
    transport = await link.ready(10)
    numbers: dict[str, float] = {}
    for name, idmp in (("xadd", False), ("xadd_idmp", True)):
        batches = [adds(size, idmp=idmp) for _ in range(jobs // size)]
        numbers[name] = await pipelined(transport, batches, size)
        if not idmp:
            await link.call("DEL", STREAM)
    await link.call("XGROUP", "CREATE", STREAM, GROUP, "0")
    read = command("XREADGROUP", "GROUP", GROUP, "c", "COUNT", 256, "CLAIM", 30_000, "STREAMS", STREAM, ">")
    started, done = time.perf_counter(), 0
    pending = asyncio.ensure_future(send(transport, read, 1))
    while done < jobs // size * size:
        (reply,) = await pending
        ids = [entry[0] for entry in reply[0][1]]
        pending = asyncio.ensure_future(
            send(transport, command("XACKDEL", STREAM, GROUP, "IDS", len(ids), *ids) + read, 2)
        )
        done += len(ids)
        replies = await pending
        pending = asyncio.get_running_loop().create_future()
        pending.set_result([replies[1]])
    numbers["read_ack"] = done / (time.perf_counter() - started)
    await link.call("DEL", STREAM)
    await link.close()
    print(json.dumps(numbers))


if __name__ == "__main__":
    asyncio.run(main())

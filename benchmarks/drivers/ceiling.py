"""The server's own limit: a pipelining client that packs beforehand and does no work with what comes back."""

from __future__ import annotations

import asyncio

from protocol import Asked, answer

from relevo.bench.ceiling import Ceiling


async def main() -> None:
    asked = Asked.read()
    async with Ceiling.of(asked.url, "ceiling") as ceiling:
        measures = {
            "raw_add": await ceiling.adds(asked.jobs),
            "raw_add_once": await ceiling.adds(asked.jobs, once=True),
            "raw_drain": await ceiling.drain(asked.jobs),
            "raw_round_trip": await ceiling.round_trips(2_000),
        }
    answer(measures)


if __name__ == "__main__":
    asyncio.run(main())

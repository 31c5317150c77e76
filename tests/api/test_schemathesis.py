"""Schemathesis over the whole document: no 500, no answer that is not documented, and nearly every operation does succeed.

Every operation has to be answered with a success by the run, or by a walk over the document with one good request for each.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from relevo.api.settings import ApiSettings
from tests.pace import limit
from tests.servers.child import Child
from tests.servers.leaks import KeyLeaks
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer
from tests.servers.server import Server
from tests.support.room import Room, served
from tests.support.stream_jobs import dead_job
from tests.support.walk import ONLY_WITH_REDIS, operations_of, walked

ROOT = Path(__file__).parents[2]
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "unsupported_method,allow_header_conformance"
)

WITH_OUR_KEY = ("--generation-with-security-parameters", "false")  # else it sends keys of its own making, all refused
CONFIG = """
[parameters]
"path.scope" = "billing"
"path.queue" = ["invoices", "news"]
"""


async def _search(room: Room, folder: Path, *, phases: str, examples: int, seconds: int | None = None) -> None:
    """Runs the tool against the room, in a process of its own as a user would: so many requests for each operation, or with
    `seconds` as many as there is time for."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"),
        *(f"{room.service.url}/openapi.json", "--header", f"Authorization: Bearer {room.key}", "--checks", CHECKS),
        *("--phases", phases, "--max-examples", str(examples), "--workers", "1", "--seed", "17", "--no-color"),
        *("--request-timeout", "70", "--suppress-health-check", "all", "--generation-database", "none", *WITH_OUR_KEY),
        *(() if seconds is None else ("--max-time", str(seconds))),
    ]
    environment = {
        **os.environ,
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": str(ROOT),
        "RELEVO_TEST_URL": room.service.url,
        "RELEVO_TEST_KEY": room.key,
        "SCHEMATHESIS_HOOKS": "tests.api.schemathesis_hooks",
    }
    timeout = (seconds or 600) + 300
    done = await asyncio.to_thread(Child.run, *command, cwd=folder, env=environment, timeout=timeout)
    found = (done.out.partition("= FAILURES =")[2] or done.out.partition("= ERRORS =")[2] or done.out)[:4000]
    assert done.code == 0, found + done.err[-2000:]
    assert re.search(r"\d+ generated|No issues found", done.out), done.out[-2000:]


async def _succeeded(room: Room) -> set[str]:
    """Operations that were answered with a success so far, as the server itself counts them."""
    counted = (await room.ask("GET", "/metrics")).text
    found = re.findall(r'relevo_http_requests_total\{method="(\w+)",route="([^"]+)",status="2\d\d"\}', counted)
    return {f"{method} {route}" for method, route in found}


async def _furnished(room: Room) -> None:
    """Things that generated requests can meet: the configuration names them."""
    await room.publish(body={"n": 1}, labels={"a": "b"})
    await room.do("POST", "/v1/scopes/billing/queues", {"slug": "news", "consumer_mode": "broadcast"})


async def test_every_operation_succeeds_with_a_good_request(room: Room) -> None:
    operations = await operations_of(room)
    await asyncio.to_thread(walked, room, operations)
    every = {name for name in operations if name.partition(" ")[2].startswith("/v1/")}
    assert every - await _succeeded(room) == ONLY_WITH_REDIS


async def test_operations_that_need_redis_succeed_beside_one(
    database_url: str, valkey: Server, queue_name: str, key_leaks: KeyLeaks
) -> None:
    key_leaks.allow("rw:*")
    entry = await dead_job(valkey.url, queue_name)
    async with served(database_url, redis_url=valkey.url, stream_queues=(queue_name,)) as room:
        place = "/v1/scopes/billing"
        async with room.http.stream("GET", f"{place}/events") as events:
            assert events.status_code == 200
        letter = {"stream_queue": queue_name, "entry_id": entry}
        assert (await room.do("POST", f"{place}/stream-dead-letters", letter))["source"] == "stream_dead_letter"
        await room.do("POST", f"{place}/stream-watches", {"stream_queue": queue_name})
        await room.do("DELETE", f"{place}/stream-watches/{queue_name}")
        assert await _succeeded(room) >= ONLY_WITH_REDIS


IMPATIENT = ApiSettings(longest_wait_s=0.1, metrics_open=True)


@pytest.mark.whole  # a minute and a half; the walk above meets every operation too
@pytest.mark.timeout(500)
async def test_no_500_and_no_undocumented_answer_on_sqlite(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, api=IMPATIENT) as room:
        await _furnished(room)
        await _search(room, tmp_path, phases="fuzzing", examples=10)
        await _assert_deep(room)


@pytest.mark.whole
@pytest.mark.timeout(400)
async def test_no_500_and_no_undocumented_answer_at_the_edges_of_what_is_allowed(
    database_url: str, tmp_path: Path
) -> None:
    async with served(database_url, api=IMPATIENT) as room:
        await _furnished(room)
        await _search(room, tmp_path, phases="examples,coverage", examples=3, seconds=int(limit(60)))


async def _assert_deep(room: Room) -> None:
    """Of what can succeed without Redis, nine of ten operations did, by generated requests alone."""
    possible = set(await operations_of(room)) - ONLY_WITH_REDIS
    missed = possible - await _succeeded(room)
    assert len(missed) <= len(possible) // 10, sorted(missed)


@pytest.mark.scale
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("store", ["postgresql", "mariadb", "sqlite"])
async def test_no_500_and_no_undocumented_answer_for_long(
    store: str, request: pytest.FixtureRequest, database_url: str, tmp_path: Path
) -> None:
    url = database_url
    if store == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        postgres.create("schemathesis")
        url = postgres.url("asyncpg", "schemathesis")
    elif store == "mariadb":
        mariadb: MariaDbServer = request.getfixturevalue("mariadb")
        mariadb.create("schemathesis")
        url = mariadb.url("asyncmy", "schemathesis")
    async with served(url, api=IMPATIENT) as room:
        await _furnished(room)
        await _search(room, tmp_path, phases="fuzzing", examples=30)
        await _assert_deep(room)
        await _search(room, tmp_path, phases="examples,coverage,fuzzing,stateful", examples=200, seconds=600)

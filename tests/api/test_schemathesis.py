"""Schemathesis over the whole document: no 500, no answer that is not documented."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from relevo.api.settings import ApiSettings
from tests.api.room import Room, served
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


WITH_OUR_KEY = ("--generation-with-security-parameters", "false")  # else it sends keys of its own making, all refused
CONFIG = """
[parameters]
"path.scope" = "billing"
"path.queue" = ["invoices", "news"]
"""


async def _search(room: Room, folder: Path, *, examples: int, seconds: int, phases: str) -> None:
    """Runs the tool against the room, in a process of its own as a user would, for at most so many seconds."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [
        *(
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(config),
            "run",
            f"{room.service.url}/openapi.json",
        ),
        *("--header", f"Authorization: Bearer {room.key}", "--checks", CHECKS, "--phases", phases),
        *("--max-examples", str(examples), "--workers", "1", "--seed", "17", "--no-color", "--max-time", str(seconds)),
        *("--request-timeout", "70", "--suppress-health-check", "all", "--generation-database", "none", *WITH_OUR_KEY),
    ]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=seconds + 200,
        check=False,
    )
    found = done.stdout.partition("= FAILURES =")[2][:4000] or done.stdout[-4000:]
    assert done.returncode == 0, found + done.stderr[-2000:]
    assert re.search(r"\d+ generated|No issues found", done.stdout), done.stdout[-2000:]


async def _furnished(room: Room) -> None:
    """Things that generated requests can meet: the document's examples name them."""
    await room.publish(body={"n": 1}, labels={"a": "b"})
    await room.do("POST", "/v1/scopes/billing/queues", {"slug": "news", "consumer_mode": "broadcast"})


@pytest.mark.timeout(240)
async def test_no_500_and_no_undocumented_answer_on_sqlite(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, api=ApiSettings(longest_wait_s=0.1)) as room:
        await _furnished(room)
        await _search(room, tmp_path, examples=12, seconds=45, phases="examples,coverage,fuzzing")


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
    async with served(url, api=ApiSettings(longest_wait_s=0.1)) as room:
        await _furnished(room)
        await _search(room, tmp_path, examples=200, seconds=600, phases="examples,coverage,fuzzing,stateful")

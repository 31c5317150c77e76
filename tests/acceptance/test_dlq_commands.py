"""`relevo dlq`: peek, replay and purge, with filters, dry runs and questions."""

import asyncio
import base64
import contextlib
import json
import os
import pty
import re
import subprocess
from typing import NamedTuple

import pytest

from relevo import Job, Queue, UnrecoverableError, Worker
from tests.pace import limit
from tests.servers.server import Server
from tests.support.command_line import COMMAND, Cli


@pytest.fixture
def graveyard(server: Server, queue_name: str) -> str:
    """A queue with three dead letters: two `send` that ran out of retries, one `sort` that was unrecoverable."""

    async def bury() -> None:
        async def fail(job: Job) -> None:
            if job.name == "sort":
                raise UnrecoverableError("no address")
            raise TimeoutError("the other side is down")

        jobs = [{"name": name, "data": {"n": n}, "attempts": 1} for n, name in enumerate(("send", "sort", "send"))]
        async with Queue(queue_name, redis_url=server.url) as queue:
            await queue.add_bulk(jobs)
            async with Worker(queue_name, fail, redis_url=server.url, concurrency=1) as worker:
                dead = 0
                while dead < 3:
                    dead += (
                        await worker.settled.wait_for(lambda settlement: settlement.dead > 0, timeout=limit(30))
                    ).dead

    asyncio.run(bury())
    return queue_name


def test_peek_tells_job_reason_detail_and_data(server: Server, cli: Cli, graveyard: str) -> None:
    letters = cli("dlq", "peek", graveyard, "--json").data
    assert [(each["name"], each["reason"], each["data"]) for each in letters] == [
        ("send", "retries_exhausted", {"n": 0}),
        ("sort", "unrecoverable", {"n": 1}),
        ("send", "retries_exhausted", {"n": 2}),
    ]
    assert letters[1]["detail"] == "relevo.errors.UnrecoverableError: no address"
    assert [each["attempts_made"] for each in letters] == [1, 1, 1]
    assert cli("dlq", "peek", graveyard, "--name", "sort", "--json").data == [letters[1]]


def test_peek_shows_each_traceback_once(server: Server, cli: Cli, graveyard: str) -> None:
    letters = cli("dlq", "peek", graveyard, "--json").data
    assert all("in fail" in each["traceback"] and __file__ in each["traceback"] for each in letters)
    said = cli("dlq", "peek", graveyard).out
    assert said.count("Traceback (most recent call last)") == 2
    assert f"{letters[0]['job_id']} (send) and 1 more:" in said
    assert 'raise TimeoutError("the other side is down")' in said


def test_a_dry_run_changes_nothing(server: Server, cli: Cli, graveyard: str) -> None:
    said = cli("dlq", "replay", graveyard, "--dry-run", "--reason", "retries_exhausted", "--json").data
    assert said == {"queue": graveyard, "would": "replay", "count": 2, "reasons": {"retries_exhausted": 2}}
    assert cli("inspect", graveyard, "--json").data["dead"] == 3


def test_replay_sends_only_the_chosen_back(server: Server, cli: Cli, graveyard: str) -> None:
    said = cli("dlq", "replay", graveyard, "--name", "send", "--yes", "--json").data
    assert said == {"queue": graveyard, "replayed": 2, "left": 1}
    assert cli("inspect", graveyard, "--json").data["waiting"] == 2


def test_purge_deletes_only_the_chosen(server: Server, cli: Cli, graveyard: str) -> None:
    said = cli("dlq", "purge", graveyard, "--reason", "unrecoverable", "--yes", "--json").data
    assert said == {"queue": graveyard, "purged": 1, "left": 2}
    assert cli("inspect", graveyard, "--json").data["waiting"] == 0


def test_replay_asks_first_and_a_no_changes_nothing(server: Server, cli: Cli, graveyard: str) -> None:
    said = cli("dlq", "replay", graveyard, stdin="n\n")
    assert said.code == 1
    assert "replay 3 dead letters" in said.err
    assert "nothing was changed" in said.err
    assert cli("inspect", graveyard, "--json").data["dead"] == 3


def test_replay_goes_on_after_a_yes_and_says_what_it_did(server: Server, cli: Cli, graveyard: str) -> None:
    said = cli("dlq", "replay", graveyard, stdin="y\n")
    assert said.code == 0
    assert said.out.endswith(f"replayed 3 of 3 dead letters; 0 left in {graveyard}\n")


@pytest.mark.parametrize("deed", ["replay", "purge"])
def test_a_terminal_is_shown_how_far_it_is(server: Server, graveyard: str, deed: str) -> None:
    said = at_a_terminal("dlq", deed, graveyard, "--yes", url=server.url)
    assert f"{deed} {graveyard}" in said.screen
    assert "━━━" in said.screen
    assert "3/3" in said.screen
    assert "of 3 dead letters; 0 left" in said.out


def test_a_program_is_shown_no_bar_even_at_a_terminal(server: Server, graveyard: str) -> None:
    said = at_a_terminal("dlq", "replay", graveyard, "--yes", "--json", url=server.url)
    assert said.screen == ""
    assert json.loads(said.out) == {"queue": graveyard, "replayed": 3, "left": 0}


class AtTerminal(NamedTuple):
    """What was drawn on the terminal, and what went to the pipe beside it."""

    screen: str
    out: str


def at_a_terminal(*arguments: str, url: str) -> AtTerminal:
    """Runs `relevo` with a terminal of 120 columns for its complaints and progress."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "RELEVO_REDIS_URL": url, "TERM": "xterm", "COLUMNS": "120"}
    with open(ours, "rb", buffering=0) as drawn:  # noqa: PTH123 - a descriptor has no path
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environment
        )
        os.close(theirs)
        screen = b""
        with contextlib.suppress(OSError):  # how a terminal says that nobody is left on its other side
            while more := drawn.read(4096):
                screen += more
        out, _ = process.communicate(timeout=limit(40))
    assert process.returncode == 0, screen
    return AtTerminal(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.decode()), out.decode())


def test_a_limit_takes_the_oldest(server: Server, cli: Cli, graveyard: str) -> None:
    cli("dlq", "purge", graveyard, "--limit", "2", "--yes")
    assert [letter["data"] for letter in cli("dlq", "peek", graveyard, "--json").data] == [{"n": 2}]


def test_letters_are_chosen_by_their_time(server: Server, cli: Cli, graveyard: str) -> None:
    assert cli("dlq", "peek", graveyard, "--until", "1h", "--json").data == []
    assert len(cli("dlq", "peek", graveyard, "--since", "1h", "--json").data) == 3


def test_people_see_a_table_and_the_reasons_counted(server: Server, cli: Cli, graveyard: str) -> None:
    said = cli("dlq", "peek", graveyard).out
    assert "the other side is down" in said
    assert "retries_exhausted: 2  unrecoverable: 1" in said


def test_an_empty_graveyard_is_said(server: Server, cli: Cli, queue_name: str) -> None:
    assert cli("dlq", "peek", queue_name).out == f"no dead letters in {queue_name}\n"
    assert cli("dlq", "replay", queue_name).code == 0


def test_a_letter_that_is_no_job_is_shown_with_its_bytes_and_stays(server: Server, cli: Cli, queue_name: str) -> None:
    poison = b"\xff\x00no job"
    dead = f"{{chasqui:{queue_name}}}:dlq"
    server.call_at(dead, "XADD", "*", "d", poison, "source_id", "1-0", "reason", "malformed")
    (letter,) = cli("dlq", "peek", queue_name, "--json").data
    assert base64.b64decode(letter["payload"]["base64"]) == poison
    said = cli("dlq", "replay", queue_name, "--yes").out
    assert "1 cannot be read as jobs and were not replayed" in said
    assert cli("inspect", queue_name, "--json").data["dead"] == 1

"""A failure as people meet it in a terminal: what `relevo worker` prints, `job show`, `events -v` and `add --wait`."""

import asyncio
from pathlib import Path

import pytest

from relevo import Job, Queue, Worker
from tests.pace import limit
from tests.servers.child import Child
from tests.servers.server import Server
from tests.support.command_line import COMMAND, Cli, Said

APP = """
from relevo import Tasks

tasks = Tasks()


def read_address(user: dict) -> str:
    return user["email"]


@tasks.task(attempts=2, backoff=1)
async def send(user: dict) -> None:
    read_address(user)
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def test_the_worker_prints_file_and_line_of_what_failed(server: Server, cli: Cli, queue_name: str, app: Path) -> None:
    cli("add", queue_name, "send", '{"user": {"name": "ada"}}', "--attempts", "2", "--backoff-ms", "1")
    arguments = [*COMMAND, "--redis-url", server.url, "worker", "shop:tasks", "-q", queue_name, "--max-jobs", "2"]
    with Child(*arguments, cwd=app) as worker:
        worker.wait_for(" is dead after ")
        said = worker.err
    assert said.count(" WARNING relevo.jobs: ") == 2
    assert "failed, attempt 1 of 2, next run in " in said
    assert "failed, attempt 2 of 2, not tried again: KeyError: 'email'" in said
    place = app / "shop.py"
    assert f'File "{place}", line 8, in read_address\n    return user["email"]' in said
    assert f'File "{place}", line 13, in send' in said
    assert "site-packages" not in said
    assert "relevo/engine" not in said


def fail_nine_times(server: Server, queue_name: str) -> str:
    """The id of a job that has failed nine times and waits for its tenth run."""

    async def story() -> str:
        async def fail(job: Job) -> None:
            raise KeyError("email")

        backoff = {"kind": "exponential", "delay_ms": 1, "multiplier": 3.0, "jitter_ms": 0, "max_delay_ms": 3_600_000}
        async with Queue(queue_name, redis_url=server.url) as queue:
            job = await queue.add("send", {"to": "ada"}, backoff=backoff, attempts=25)
            async with Worker(queue_name, fail, redis_url=server.url, promote_every_ms=5) as worker:
                failed = 0
                while failed < 9:
                    failed += (
                        await worker.settled.wait_for(lambda settled: settled.retried > 0, timeout=limit(40))
                    ).retried
            return job.id

    return asyncio.run(story())


def test_a_job_that_failed_nine_times_is_shown_with_its_runs_and_its_last_error(
    server: Server, cli: Cli, queue_name: str
) -> None:
    job_id = fail_nine_times(server, queue_name)
    told = cli("job", "show", queue_name, job_id, "--json").data
    assert (told["state"], told["attempts_made"]) == ("delayed", 9)
    failure = told["last_failure"]
    assert (failure["attempt"], failure["error"]) == (9, "KeyError: 'email'")
    said = cli("job", "show", queue_name, job_id).out
    assert "KeyError: 'email'" in said
    assert "next run" in said
    assert f'File "{__file__}"' in said
    assert 'raise KeyError("email")' in said


def test_events_with_v_show_the_traceback_that_is_kept(server: Server, cli: Cli, queue_name: str) -> None:
    job_id = fail_nine_times(server, queue_name)
    chosen = ("events", queue_name, "--from", "0", "--event", "failed", "--count", "9")
    assert "Traceback" not in cli(*chosen).out
    said = cli(*chosen, "-v").out
    assert said.count("Traceback") == 1, "of the run that is kept: the last"
    assert 'raise KeyError("email")' in said
    told = cli(*chosen, "-v", "--json").lines
    assert [("traceback" in each, each["job_id"]) for each in told] == [(False, job_id)] * 8 + [(True, job_id)]


def work_on(server: Server, queue_name: str, cli: Cli, *arguments: str) -> Said:
    """What `relevo add --wait` says while a worker works: `send` fails, `open` returns what cannot be stored, and everything
    else returns None."""

    async def story() -> Said:
        async def handler(job: Job) -> object:
            if job.name == "send":
                raise KeyError("email")
            return object() if job.name == "open" else None

        async with Worker(queue_name, handler, redis_url=server.url, store_results=True):
            return await asyncio.to_thread(cli, "add", queue_name, *arguments)

    return asyncio.run(story())


def test_a_wait_for_a_job_without_a_result_ends_with_it(server: Server, cli: Cli, queue_name: str) -> None:
    said = work_on(server, queue_name, cli, "note", "--wait", "40")
    assert said.code == 0
    assert "done, without a result" in said.out


def test_a_wait_for_a_job_whose_result_was_dropped_says_why(server: Server, cli: Cli, queue_name: str) -> None:
    said = work_on(server, queue_name, cli, "open", "--wait", "40")
    assert said.code == 0
    assert (
        "done, and its result was dropped: relevo.errors.BadResult: The result of 'open' cannot be stored" in said.out
    )


def test_a_wait_for_a_job_that_dies_ends_with_its_traceback(server: Server, cli: Cli, queue_name: str) -> None:
    said = work_on(server, queue_name, cli, "send", "--attempts", "1", "--wait", "40")
    assert said.code == 1
    assert 'raise KeyError("email")' in said.err
    assert "(retries_exhausted; KeyError: 'email')" in said.err

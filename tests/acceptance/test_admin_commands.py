"""The commands that look after jobs, lanes, flows and whole queues; on every kind of server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from relevo import Flow, Job, Queue, Worker
from tests.pace import limit
from tests.servers.server import Server
from tests.support.command_line import Cli


def test_a_queue_is_paused_and_resumed(server: Server, cli: Cli, queue_name: str) -> None:
    cli("add", queue_name, "n")
    assert f"relevo resume {queue_name}" in cli("pause", queue_name).out
    assert cli("inspect", queue_name, "--json").data["paused"] is True
    assert cli("resume", queue_name, "--json").data == {"queue": queue_name, "paused": False}
    assert cli("inspect", queue_name, "--json").data["paused"] is False


def test_show_tells_where_a_waiting_job_is(server: Server, cli: Cli, queue_name: str) -> None:
    job_id = cli("add", queue_name, "welcome", '{"to": "ada"}', "--json").data["id"]
    told = cli("job", "show", queue_name, job_id, "--json").data
    assert (told["state"], told["name"], told["data"], told["attempts_made"]) == (
        "waiting",
        "welcome",
        {"to": "ada"},
        0,
    )
    assert told["place"].startswith("stream, entry ")
    assert '{"to": "ada"}' in cli("job", "show", queue_name, job_id).out


def test_show_tells_result_progress_and_log_of_a_finished_job(server: Server, cli: Cli, queue_name: str) -> None:
    async def work(job: Job) -> str:
        await job.log("halfway there")
        await job.log("done")
        await job.update_progress(100)
        return "sent"

    job_id = cli("add", queue_name, "send", "--json").data["id"]
    asyncio.run(_work(server.url, queue_name, work, jobs=1))
    told = cli("job", "show", queue_name, job_id, "--json").data
    assert (told["state"], told["result"], told["progress"], told["log_lines"]) == ("completed", "sent", 100, 2)
    assert cli("job", "logs", queue_name, job_id).out == "halfway there\ndone\n"
    assert cli("job", "logs", queue_name, job_id, "--last", "1", "--json").data["lines"] == ["done"]
    assert cli("job", "progress", queue_name, job_id).out == "100 %\n"


def test_a_job_that_left_only_a_log_is_shown_with_that(server: Server, cli: Cli, queue_name: str) -> None:
    async def work(job: Job) -> None:
        await job.log("nothing to keep")

    job_id = cli("add", queue_name, "send", "--json").data["id"]
    asyncio.run(_work(server.url, queue_name, work, jobs=1))
    told = cli("job", "show", queue_name, job_id, "--json").data
    assert (told["state"], told["log_lines"], told["place"]) == ("unknown", 1, None)


def test_a_dead_job_is_shown_with_its_reason_and_can_be_retried(server: Server, cli: Cli, queue_name: str) -> None:
    async def fail(_: Job) -> None:
        raise TimeoutError("the other side is down")

    job_id = cli("add", queue_name, "send", "--attempts", "1", "--json").data["id"]
    asyncio.run(_work(server.url, queue_name, fail, jobs=1))
    told = cli("job", "show", queue_name, job_id, "--json").data
    assert (told["state"], told["reason"], told["attempts_made"]) == ("failed", "retries_exhausted", 1)
    assert told["detail"] == told["last_failure"]["error"] == "TimeoutError: the other side is down"
    assert cli("job", "retry", queue_name, job_id).out == f"job {job_id} moved back to {queue_name}\n"
    assert cli("job", "show", queue_name, job_id, "--json").data["state"] == "waiting"


def test_a_delayed_job_is_cancelled_after_a_yes(server: Server, cli: Cli, queue_name: str) -> None:
    cli("add", queue_name, "later", "--delay", "1h", "--job-id", "order-7")
    refused = cli("job", "cancel", queue_name, "order-7", stdin="n\n")
    assert refused.code == 1
    assert "nothing was changed" in refused.err
    assert cli("job", "cancel", queue_name, "order-7", stdin="y\n").out.endswith("it will not run\n")
    assert cli("inspect", queue_name, "--json").data["delayed"] == 0


def test_a_running_job_is_cancelled(server: Server, queue_name: str, cli: Cli) -> None:
    async def story() -> bool:
        running, cancelled = asyncio.Event(), asyncio.Event()

        async def hold(_: Job) -> None:
            running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        async with Queue(queue_name, redis_url=server.url) as queue, Worker(queue_name, hold, redis_url=server.url):
            job = await queue.add("slow", None)
            await asyncio.wait_for(running.wait(), limit(30))
            said = await asyncio.to_thread(cli, "job", "cancel", queue_name, job.id, "--yes")
            assert "its run is being cancelled" in said.out
            await asyncio.wait_for(cancelled.wait(), limit(30))
        return cancelled.is_set()

    assert asyncio.run(story())


def test_a_removed_job_is_gone(server: Server, cli: Cli, queue_name: str) -> None:
    job_id = cli("add", queue_name, "n", "--json").data["id"]
    assert cli("job", "remove", queue_name, job_id, "--yes", "--json").data["removed_from"]["stream"] is True
    assert cli("job", "show", queue_name, job_id).code == 1


def test_jobs_are_listed_page_by_page(server: Server, cli: Cli, queue_name: str) -> None:
    cli("add", queue_name, "n", "--lines", stdin="1\n2\n3\n")
    first = cli("job", "list", queue_name, "--limit", "2", "--json").data
    second = cli("job", "list", queue_name, "--limit", "2", "--cursor", first["cursor"], "--json").data
    assert [job["data"] for job in (*first["jobs"], *second["jobs"])] == [1, 2, 3]
    assert "waiting jobs of" in cli("job", "list", queue_name).out


def test_a_queue_is_drained_after_a_yes(server: Server, cli: Cli, queue_name: str) -> None:
    cli("add", queue_name, "n", "--lines", stdin="1\n2\n")
    cli("add", queue_name, "later", "--delay", "1h")
    assert cli("drain", queue_name, stdin="n\n").code == 1
    assert cli("drain", queue_name, "--no-delayed", "--yes", "--json").data["removed"] == 2
    assert cli("drain", queue_name, stdin="y\n").out.endswith(f"removed 1 jobs from {queue_name}\n")


def test_only_old_jobs_are_cleaned(server: Server, cli: Cli, queue_name: str) -> None:
    cli("add", queue_name, "n", "--lines", stdin="1\n2\n3\n")
    assert cli("clean", queue_name, "--state", "waiting", "--grace", "1h", "--yes", "--json").data["removed"] == 0
    dry = cli("clean", queue_name, "--state", "waiting", "--dry-run", "--json").data
    assert dry == {"queue": queue_name, "state": "waiting", "would": "clean", "count": 3}
    assert cli("clean", queue_name, "--state", "waiting", "--limit", "2", "--yes", "--json").data["removed"] == 2
    assert cli("inspect", queue_name, "--json").data["waiting"] == 1


@pytest.mark.parametrize("state", ["completed", "failed", "delayed"])
def test_a_dry_run_counts_what_clean_then_removes(server: Server, cli: Cli, queue_name: str, state: str) -> None:
    async def end(job: Job) -> str:
        if state == "failed":
            raise ValueError("no")
        return "yes"

    for _ in range(2):
        cli("add", queue_name, "n", "--attempts", "1", *(["--delay", "1h"] if state == "delayed" else []))
    if state != "delayed":
        asyncio.run(_work(server.url, queue_name, end, jobs=2))
    meant = cli("clean", queue_name, "--state", state, "--dry-run", "--json").data["count"]
    assert meant == cli("clean", queue_name, "--state", state, "--yes", "--json").data["removed"] == 2


def test_an_obliterated_queue_leaves_no_key(server: Server, cli: Cli, queue_name: str) -> None:
    cli("add", queue_name, "n", "--job-id", "mine")
    assert cli("obliterate", queue_name, stdin="n\n").code == 1
    assert "1 waiting" in cli("obliterate", queue_name, stdin="y\n").err
    assert cli("inspect", queue_name, "--json").data["stream"] == 0
    assert cli("obliterate", queue_name, "--yes").out == f"queue {queue_name} does not exist\n"


def test_a_busy_queue_is_obliterated_only_by_force(server: Server, cli: Cli, queue_name: str) -> None:
    async def story() -> None:
        running, release = asyncio.Event(), asyncio.Event()

        async def hold(_: Job) -> None:
            running.set()
            await release.wait()

        async with Queue(queue_name, redis_url=server.url) as queue, Worker(queue_name, hold, redis_url=server.url):
            await queue.add("slow", None)
            await asyncio.wait_for(running.wait(), limit(30))
            said = await asyncio.to_thread(cli, "obliterate", queue_name, "--yes")
            assert said.code == 1
            assert "workers hold 1 of its jobs" in said.err
            assert (await asyncio.to_thread(cli, "obliterate", queue_name, "--yes", "--force")).code == 0
            release.set()

    asyncio.run(story())


def test_a_lane_is_limited_listed_and_freed(server: Server, cli: Cli, queue_name: str) -> None:
    said = cli("lanes", "limit", queue_name, "tenant-7", "--concurrency", "1", "--rate", "10", "--per", "1m")
    assert said.out == f"lane tenant-7 of {queue_name}: 1 at once, 10 in 1 min\n"
    cli("add", queue_name, "n", "1", "--lane", "tenant-7")
    cli("add", queue_name, "n", "--lines", "--lane", "tenant-7", stdin="2\n3\n")
    (lane,) = cli("lanes", "list", queue_name, "--json").data
    limited = {"concurrency": 1, "rate": 10, "per_ms": 60_000, "burst": 0}
    assert lane == {"lane": "tenant-7", "waiting": 2, "running": 1, "limit": limited}
    assert "1 at once, 10 in 1 min" in cli("lanes", "list", queue_name).out
    assert cli("lanes", "unlimit", queue_name, "tenant-7", "--json").data["limit"] is None
    assert cli("lanes", "unlimit", queue_name, "tenant-7").code == 1
    cli("obliterate", queue_name, "--yes")


def test_all_lanes_get_a_limit_by_a_star(server: Server, cli: Cli, queue_name: str) -> None:
    cli("lanes", "limit", queue_name, "*", "--concurrency", "2")
    assert [each["lane"] for each in cli("lanes", "list", queue_name, "--json").data] == ["*"]
    cli("lanes", "unlimit", queue_name, "*")
    assert cli("lanes", "list", queue_name).out == f"no lanes in {queue_name}\n"


def test_a_flow_is_shown_and_cancelled(server: Server, cli: Cli, queue_name: str) -> None:
    async def begin() -> str:
        flow = Flow()
        flow.add("fetch", {})
        flow.add("merge", {}, after=["fetch"])
        async with Queue(queue_name, redis_url=server.url) as queue:
            return (await queue.start_flow(flow)).id

    flow_id = asyncio.run(begin())
    told = cli("flow", "show", queue_name, flow_id, "--json").data
    assert told["state"] == "running"
    assert {key: job["state"] for key, job in told["jobs"].items()} == {"fetch": "queued", "merge": "waiting"}
    assert cli("flow", "cancel", queue_name, flow_id, stdin="n\n").code == 1
    assert f"flow {flow_id} cancelled" in cli("flow", "cancel", queue_name, flow_id, "--yes").out
    assert cli("flow", "show", queue_name, flow_id, "--json").data["jobs"]["merge"]["state"] == "cancelled"
    cli("obliterate", queue_name, "--yes")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("job", "show", "q", "nowhere"), "has no such job"),
        (("job", "cancel", "q", "nowhere", "--yes"), "has no such job"),
        (("job", "retry", "q", "nowhere"), "has no such job"),
        (("job", "list", "q", "--state", "asleep"), "no such state"),
        (("clean", "q", "--state", "active"), "cannot be cleaned"),
        (("clean", "q", "--grace", "a while"), "not a length of time"),
        (("lanes", "limit", "q", "a"), "it limits nothing"),
        (("lanes", "limit", "q", " ", "--rate", "1"), "not a valid name"),
        (("lanes", "unlimit", "q", "a"), "no limit of its own"),
        (("flow", "show", "q", "none"), "there is no flow 'none'"),
        (("flow", "cancel", "q", "none", "--yes"), "there is no flow 'none'"),
        (("pause", "a{b}"), "braces"),
    ],
)
def test_bad_input_is_one_line_that_names_the_value_and_the_remedy(
    server: Server, cli: Cli, arguments: tuple[str, ...], words: str
) -> None:
    assert words in cli(*arguments).refusal()


async def _work(url: str, queue_name: str, handler: Callable[[Job], Awaitable[Any]], *, jobs: int) -> None:
    """Runs a worker until so many jobs are done or dead."""
    async with Worker(queue_name, handler, redis_url=url, store_results=True) as worker:
        ended = 0
        while ended < jobs:
            settlement = await worker.settled.wait_for(lambda each: each.done + each.dead > 0, timeout=limit(30))
            ended += settlement.done + settlement.dead

"""The commands that add, look and follow; on every kind of server."""

import asyncio
import json
import re
import signal

import pytest

from relevo import Job, Queue, Tasks, Worker
from tests.pace import limit
from tests.servers.child import Child
from tests.servers.server import Server
from tests.support.command_line import COMMAND, Cli, relevo


def test_an_added_job_is_seen_waiting(server: Server, cli: Cli, queue_name: str) -> None:
    added = cli("add", queue_name, "welcome", '{"to": "ada"}', "--json")
    seen = cli("inspect", queue_name, "--json").data
    assert added.data["name"] == "welcome"
    assert (seen["waiting"], seen["stream"], seen["pending"], seen["group_exists"]) == (1, 1, 0, False)
    assert seen["oldest_waiting_ms"] >= 0


def test_a_delayed_job_is_seen_delayed(server: Server, cli: Cli, queue_name: str) -> None:
    cli("add", queue_name, "later", "--delay", "1h")
    seen = cli("inspect", queue_name, "--json").data
    assert (seen["waiting"], seen["delayed"], seen["overdue_ms"]) == (0, 1, 0)
    assert 3_500_000 < seen["next_due_ms"] <= 3_600_000


def test_added_data_reaches_a_handler_and_its_result_comes_back(server: Server, queue_name: str) -> None:
    async def shout(job: Job) -> str:
        return job.data["word"].upper()

    async def story() -> str:
        async with Worker(queue_name, shout, redis_url=server.url, store_results=True):
            said = await asyncio.to_thread(
                relevo, "add", queue_name, "shout", '{"word": "ahoy"}', "--wait", "30", url=server.url
            )
        return said.out

    assert 'result: "AHOY"' in asyncio.run(story())


def test_an_added_job_is_tried_as_often_as_its_task_says(server: Server, queue_name: str) -> None:
    tasks: Tasks[None] = Tasks()
    runs: list[int] = []

    @tasks.task(attempts=1)
    async def charge(amount: int) -> None:
        runs.append(amount)
        raise ValueError("declined")

    async def story() -> None:
        async with Worker(queue_name, tasks, redis_url=server.url) as worker:
            add = asyncio.to_thread(relevo, "add", queue_name, "charge", '{"amount": 5}', url=server.url)
            await asyncio.gather(worker.settled.wait_for(lambda settled: settled.dead == 1, timeout=limit(30)), add)

    asyncio.run(story())
    assert runs == [5]


def test_a_line_of_stdin_is_a_job(server: Server, cli: Cli, queue_name: str) -> None:
    said = cli("add", queue_name, "n", "--lines", "--json", stdin='{"i": 1}\n\n{"i": 2}\n"three"\n')
    assert len({job["id"] for job in said.lines}) == 3
    assert server.call_at(f"{{chasqui:{queue_name}}}:stream", "XLEN") == 3


def test_stdin_can_be_the_data(server: Server, cli: Cli, queue_name: str) -> None:
    assert cli("add", queue_name, "one", "-", stdin="[1, 2]").code == 0


def test_the_same_id_adds_once(server: Server, cli: Cli, queue_name: str) -> None:
    first, second = (cli("add", queue_name, "once", "--job-id", "order-7", "--json").data["id"] for _ in range(2))
    assert (first, second) == ("order-7", "order-7")
    assert cli("inspect", queue_name, "--json").data["waiting"] == 1


def test_inspect_shows_a_table_to_people(server: Server, cli: Cli, queue_name: str) -> None:
    said = cli("inspect", queue_name).out
    for words in ("stream depth", "pending", "group not created", "DLQ depth", "delayed depth", "oldest delayed lag"):
        assert words in said


def test_inspect_counts_what_a_worker_holds(server: Server, queue_name: str) -> None:
    async def story() -> dict[str, int]:
        running, release = asyncio.Event(), asyncio.Event()

        async def hold(_: Job) -> None:
            running.set()
            await release.wait()

        async with Queue(queue_name, redis_url=server.url) as queue:
            await queue.add("slow", None)
            async with Worker(queue_name, hold, redis_url=server.url):
                await asyncio.wait_for(running.wait(), limit(20))
                said = await asyncio.to_thread(relevo, "inspect", queue_name, "--json", url=server.url)
                release.set()
        return said.data

    seen = asyncio.run(story())
    assert (seen["waiting"], seen["pending"], seen["consumers"], seen["group_exists"]) == (0, 1, 1, True)


def test_watch_prints_a_look_a_line_for_programs(server: Server, cli: Cli, queue_name: str) -> None:
    cli("add", queue_name, "one")
    said = cli("watch", queue_name, "--interval-ms", "1", "--count", "3", "--json")
    assert [look["waiting"] for look in said.lines] == [1, 1, 1]


def test_events_are_told_in_order(server: Server, cli: Cli, queue_name: str) -> None:
    asyncio.run(_fail_once_then_succeed(server.url, queue_name))
    told = cli("events", queue_name, "--from", "0", "--count", "6", "--json").lines
    events = [event["event"] for event in told if event["event"] != "drained"]
    assert events[:3] == ["active", "failed", "retry-scheduled"]
    assert events[3:5] == ["waiting", "active"]
    assert told[0]["job_name"] == "flaky"


def test_events_can_be_chosen_by_name(server: Server, cli: Cli, queue_name: str) -> None:
    asyncio.run(_fail_once_then_succeed(server.url, queue_name))
    said = cli("events", queue_name, "--from", "0", "--event", "failed", "--count", "1").out
    shape = r"\d{4}-\d\d-\d\dT[\d:.]+Z \d+-\d+ failed id=\w+ name=flaky attempt=1 duration_us=\d+ reason=ValueError: not yet\n"
    assert re.fullmatch(shape, said)


@pytest.mark.parametrize("command", ["events", "watch"])
def test_ctrl_c_ends_following_without_a_complaint(server: Server, queue_name: str, command: str) -> None:
    arguments = [*COMMAND, "--redis-url", server.url, command, queue_name, "--json"]
    with Child(*arguments) as child:
        _wait_for_client(child, server, "relevo-events" if command == "events" else "relevo-cli")
        assert (child.end(signal.SIGINT), child.err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "q", "n", "{bad"), "not JSON"),
        (("add", "q", "n", "--delay", "soon"), "not a length of time"),
        (("add", "q", "n", "--at", "someday"), "not a time"),
        (("add", "q", "n", "--delay", "1s", "--at", "2026-01-01"), "--delay is given as well"),
        (("add", "q", "n" * 257), "the limit is 256"),
        (("add", " ", "n"), "blank"),
        (("add", "q", "n", "--job-id", " "), "blank"),
        (("add", "q", "n", "--lines", "--job-id", "7"), "for one job"),
        (("inspect", "a{b}"), "braces"),
        (("events", "q", "--from", "yesterday"), "not an event's id"),
        (("dlq", "peek", "q", "--reason", "boredom"), "Use one of retries_exhausted"),
        (("dlq", "replay", "q", "--since", "once"), "not a time"),
    ],
)
def test_bad_input_is_one_line_that_names_the_value_and_the_remedy(
    server: Server, cli: Cli, arguments: tuple[str, ...], words: str
) -> None:
    assert words in cli(*arguments).refusal()


def test_no_server_is_said_with_its_address_and_without_a_traceback() -> None:
    said = relevo("--patience", "0.3", "inspect", "emails", url="redis://127.0.0.1:1")
    assert said.code == 1
    assert re.fullmatch(r"error: No Redis answers at redis://127\.0\.0\.1:1 after 0\.3 s: .*\n", said.err)
    assert said.out == ""


def test_a_password_in_the_address_is_never_shown() -> None:
    said = relevo("--patience", "0.3", "inspect", "emails", url="redis://:geheim@127.0.0.1:1")
    assert said.code == 1
    assert "geheim" not in said.out + said.err


def test_an_unknown_command_is_a_usage_error() -> None:
    assert relevo("inspekt").code == 2


def test_the_module_and_the_version_are_callable() -> None:
    assert re.fullmatch(r"relevo \d+\.\d+\.\d+\n", relevo("--version").out)


def test_completion_is_offered() -> None:
    assert "--install-completion" in relevo("--help").out


async def _fail_once_then_succeed(url: str, queue_name: str) -> None:
    async def flaky(job: Job) -> None:
        if job.attempt == 0:
            raise ValueError("not yet")

    async with Queue(queue_name, redis_url=url) as queue, Worker(queue_name, flaky, redis_url=url) as worker:
        done = asyncio.ensure_future(
            worker.settled.wait_for(lambda settlement: settlement.done == 1, timeout=limit(30))
        )
        await queue.add("flaky", None, backoff=1)
        await done


def _wait_for_client(child: Child, server: Server, name: str) -> None:
    """Until the process has connected: a signal before that would test Python's start, not ours."""
    child.wait_until(lambda: name in server.client_names(), f"a connection called {name}")


def test_json_is_read_by_programs_whatever_the_data(server: Server, cli: Cli, queue_name: str) -> None:
    said = cli("add", queue_name, "wort", json.dumps({"s": "żółć 漢字 \u2028"}), "--json")
    assert said.data["name"] == "wort"

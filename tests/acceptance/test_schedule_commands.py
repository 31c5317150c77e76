"""`relevo schedule`: schedules by hand, on every kind of server; and names of queues for the shell."""

from itertools import chain, count

import pytest

from relevo.broker.address import slot_of
from relevo.cli.shell.completion import complete_queue
from relevo.wire.keys import QueueKeys
from tests.servers.server import Server
from tests.support.command_line import Cli


@pytest.fixture
def nightly(cli: Cli, queue_name: str) -> str:
    """A schedule with everything set."""
    options = {
        "--cron": "0 3 * * *",
        "--tz": "Europe/Madrid",
        "--key": "nightly",
        "--limit": "30",
        "--start": "2030-01-01",
        "--end": "2031-01-01T00:00:00Z",
        "--missed-fires": "fire-all:7",
        "--attempts": "3",
        "--backoff-ms": "100",
    }
    cli("schedule", "add", queue_name, "report", '{"kind": "daily"}', *chain.from_iterable(options.items()))
    return "nightly"


def test_a_schedule_is_listed_as_it_was_made(server: Server, cli: Cli, queue_name: str, nightly: str) -> None:
    (told,) = cli("schedule", "list", queue_name, "--json").data
    assert told == {
        "key": "nightly",
        "job_name": "report",
        "pattern": {"kind": "cron", "expression": "0 3 * * *", "tz": "Europe/Madrid"},
        "paused": False,
        "next_fire": "2030-01-01T02:00:00.000Z",
        "limit": 30,
        "start_after_ms": 1_893_456_000_000,
        "end_before_ms": 1_924_992_000_000,
        "missed_fires": {"kind": "fire-all", "max_catchup": 7},
    }
    assert "0 3 * * * (Europe/Madrid)" in cli("schedule", "list", queue_name).out


def test_repeatable_is_another_name_of_schedule_that_help_does_not_show(
    cli: Cli, queue_name: str, nightly: str
) -> None:
    assert cli("repeatable", "list", queue_name, "--json").data == cli("schedule", "list", queue_name, "--json").data
    assert cli("repeatable", "remove", queue_name, nightly, "--yes").code == 0
    shown = cli("--help").out
    assert " schedule " in shown
    assert "repeatable" not in shown


def test_an_interval_is_written_as_people_say_it(server: Server, cli: Cli, queue_name: str) -> None:
    said = cli("schedule", "add", queue_name, "ping", "--every", "90s").out
    assert said.startswith(f"schedule ping::every:90000 of {queue_name}: every 1 min 30 s, next at ")


def test_a_paused_schedule_is_listed_as_paused_until_resumed(
    server: Server, cli: Cli, queue_name: str, nightly: str
) -> None:
    assert cli("schedule", "pause", queue_name, nightly, "--json").data["changed"] is True
    assert cli("schedule", "pause", queue_name, nightly).out.endswith("was already paused\n")
    (told,) = cli("schedule", "list", queue_name, "--json").data
    assert (told["paused"], told["next_fire"]) == (True, None)
    assert cli("schedule", "resume", queue_name, nightly).out.endswith("resumed\n")
    assert cli("schedule", "list", queue_name, "--json").data[0]["paused"] is False


def test_a_schedule_can_be_run_at_once(server: Server, cli: Cli, queue_name: str, nightly: str) -> None:
    job_id = cli("schedule", "run", queue_name, nightly, "--json").data["job_id"]
    told = cli("job", "show", queue_name, job_id, "--json").data
    assert (told["name"], told["data"]) == ("report", {"kind": "daily"})
    assert cli("schedule", "list", queue_name, "--json").data[0]["limit"] == 30


def test_a_schedule_is_removed_after_a_yes(server: Server, cli: Cli, queue_name: str, nightly: str) -> None:
    assert cli("schedule", "remove", queue_name, nightly, stdin="n\n").code == 1
    assert cli("schedule", "remove", queue_name, nightly, stdin="y\n").code == 0
    assert cli("schedule", "list", queue_name).out == f"no schedules in {queue_name}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "q", "n"), "neither is given"),
        (("add", "q", "n", "--every", "1s", "--cron", "* * * * *"), "both are given"),
        (("add", "q", "n", "--every", "0s"), "at least 1"),
        (("add", "q", "n", "--every", "1s", "--tz", "UTC"), "an interval has no zone"),
        (("add", "q", "n", "--cron", "0 0 30 2 *"), "0 0 30 2 *"),
        (("add", "q", "n", "--cron", "61 * * * *"), "61 * * * *"),
        (("add", "q", "n", "--cron", "* * * * *", "--tz", "Mars/Olympus"), "Mars/Olympus"),
        (("add", "q", "n", "--every", "1s", "--missed-fires", "fire-all"), "fire-all:24"),
        (("add", "q", "n", "--every", "1s", "--start", "soon"), "not a time"),
        (("add", "q", "n", "{bad", "--every", "1s"), "not JSON"),
        (("pause", "q", "none"), "has no schedule 'none'"),
        (("resume", "q", "none"), "has no schedule 'none'"),
        (("run", "q", "none"), "has no schedule 'none'"),
        (("remove", "q", "none", "--yes"), "has no schedule 'none'"),
    ],
)
def test_bad_input_is_one_line_that_names_the_value_and_the_remedy(
    server: Server, cli: Cli, arguments: tuple[str, ...], words: str
) -> None:
    assert words in cli("schedule", *arguments).refusal()


def _third(queue: str) -> int:
    """Which of three nodes has it."""
    return slot_of(QueueKeys(queue).tag) * 3 // 16384


def test_the_shell_is_offered_queues_that_begin_like_that(
    server: Server, cli: Cli, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(
        each for n in count() if _third(each := f"{queue_name}-{n}") == _third("completion")
    )  # on the node asked
    cli("add", name, "n")
    monkeypatch.setenv("RELEVO_REDIS_URL", server.url)
    assert name in complete_queue(queue_name[:3])
    assert complete_queue("no queue begins like this") == []
    assert "" not in complete_queue("")  # the registry of queues is not one


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "nonsense"])
def test_the_shell_is_offered_nothing_when_the_server_cannot_be_asked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEVO_REDIS_URL", url)
    assert complete_queue("") == []

"""`relevo worker`: what it runs, how it ends, how several processes are supervised, and what it says to a wrong call."""

import json
import os
import signal
import socket
import sys
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.pace import limit
from tests.servers.child import Child
from tests.servers.process import free_port
from tests.servers.server import Server
from tests.support.command_line import COMMAND, Cli, relevo

APP = """
import asyncio, os, threading
from contextlib import asynccontextmanager
from relevo import Batch, Job, TaskContext, Tasks

@asynccontextmanager
async def pool():
    print("opened", flush=True)
    yield "the pool"
    print("closed", flush=True)

tasks = Tasks(pool)

@tasks.task()
async def greet(name: str) -> str:
    print(f"hello {name} from {os.getpid()}", flush=True)
    return f"Hello, {name}!"

@tasks.task()
async def shared(context: TaskContext) -> None:
    print(f"used {context.resources}", flush=True)

@tasks.task()
async def wait() -> None:
    print(f"waits in {os.getpid()}", flush=True)
    await asyncio.Event().wait()

@tasks.task()
def block() -> None:
    print(f"blocks in {os.getpid()}", flush=True)
    threading.Event().wait()

@tasks.task()
async def freeze() -> None:
    print(f"freezes {os.getpid()}", flush=True)
    threading.Event().wait()

@tasks.task()
async def crash() -> None:
    os._exit(3)

@tasks.task()
async def grow() -> None:
    tasks.kept = bytearray(os.urandom(1024)) * 200_000

async def handler(job: Job) -> None:
    print(f"handler got {job.data}", flush=True)

def plain(job: Job) -> None:
    print(f"plain got {job.data}", flush=True)

async def many(jobs: list[Job]) -> None:
    print(f"batch got {len(jobs)}", flush=True)

batch = Batch(many, size=2, linger_ms=60_000)
number = 7
"""


class Running(Child):
    """A `relevo worker` in a folder of its own, stdout and stderr as they come."""

    def __init__(self, folder: Path, url: str, *arguments: str) -> None:
        environment = {**os.environ, "RELEVO_REDIS_URL": url, "PYTHONDONTWRITEBYTECODE": "1"}
        super().__init__(*COMMAND, "worker", *arguments, cwd=folder, env=environment, merged=True)


Start = Callable[..., Running]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return file


@pytest.fixture
def start(request: pytest.FixtureRequest, app: Path) -> Generator[Start]:
    """On the server the test asks for, else on Valkey."""
    server: Server = request.getfixturevalue("server" if "server" in request.fixturenames else "valkey")
    started: list[Running] = []

    def begin(*arguments: str) -> Running:
        started.append(Running(app.parent, server.url, *arguments))
        return started[-1]

    yield begin
    for running in started:
        running.close()  # its processes notice, and leave by themselves


def test_tasks_run_and_their_results_are_kept(server: Server, cli: Cli, start: Start, queue_name: str) -> None:
    worker = start("app:tasks", "--queue", queue_name, "--store-results")
    said = cli("add", queue_name, "greet", '{"name": "Ada"}', "--wait", "40")
    assert 'result: "Hello, Ada!"' in said.out
    assert worker.end() == 0
    assert "shut down cleanly" in worker.said[-1]


@pytest.mark.parametrize(
    ("target", "words"), [("handler", "handler got 1"), ("plain", "plain got 1"), ("batch", "batch got 2")]
)
def test_a_function_or_a_batch_can_be_worked_for(
    server: Server, cli: Cli, start: Start, queue_name: str, target: str, words: str
) -> None:
    cli("add", queue_name, "n", "--lines", stdin="1\n2\n")
    worker = start(f"app:{target}", "--queue", queue_name, "--concurrency", "2")
    worker.wait_for(words)
    assert worker.end() == 0


def test_one_process_works_on_several_queues_with_one_set_of_resources(
    server: Server, cli: Cli, start: Start, queue_name: str
) -> None:
    other = f"{queue_name}-other"
    for queue in (queue_name, other):
        cli("add", queue, "shared", "{}")
    worker = start("app:tasks", "-q", queue_name, "-q", other)
    for _ in range(2):
        worker.wait_for("used the pool")
    assert worker.end() == 0
    said = "".join(worker.said)
    assert (said.count("opened"), said.count("closed")) == (1, 1)
    assert said.index("used") < said.index("closed")


def test_a_second_signal_stops_now_and_the_job_is_free_for_others(
    server: Server, cli: Cli, start: Start, queue_name: str
) -> None:
    cli("add", queue_name, "wait", "{}")
    worker = start("app:tasks", "-q", queue_name)
    worker.wait_for("waits in")
    worker.process.send_signal(signal.SIGINT)
    worker.wait_for("waiting for 1 running jobs")
    assert worker.end(signal.SIGINT) == 0
    assert cli("inspect", queue_name, "--json").data["waiting"] == 1


def test_a_thread_that_never_ends_does_not_keep_the_process(cli: Cli, start: Start, queue_name: str) -> None:
    cli("add", queue_name, "block", "{}")
    worker = start("app:tasks", "-q", queue_name, "--shutdown-s", "0.1")
    worker.wait_for("blocks in")
    assert worker.end() == 0
    assert "exits while these threads are still running" in worker.said[-1]


def test_several_processes_share_the_work_and_end_together(
    server: Server, cli: Cli, start: Start, queue_name: str
) -> None:
    workers = start("app:tasks", "-q", queue_name, "-p", "2", "-c", "1", "--shutdown-s", "0.1")
    cli("add", queue_name, "wait", "--lines", stdin="{}\n{}\n")
    processes = {workers.wait_for(r"waits in (\d+)")[1] for _ in range(2)}
    assert len(processes) == 2
    assert workers.end(signal.SIGINT) == 0
    assert not any(_alive(int(process)) for process in processes)


def test_a_third_signal_kills_a_process_that_hears_no_other(cli: Cli, start: Start, queue_name: str) -> None:
    workers = start("app:tasks", "-q", queue_name, "-p", "2")
    cli("add", queue_name, "freeze", "{}")
    frozen = int(workers.wait_for(r"freezes (\d+)")[1])
    # The supervisor's own words: a worker's line says "stop now" too, and two signals sent before it heard one count as one.
    for said in (r"told \d+ processes to finish", r"told \d+ processes? to stop now", "a third time: killing"):
        workers.process.send_signal(signal.SIGTERM)
        workers.wait_for(said)
    assert workers.ended() == 1
    assert not _alive(frozen)


def test_a_crashed_process_is_started_again_and_it_is_said(
    server: Server, cli: Cli, start: Start, queue_name: str
) -> None:
    workers = start("app:tasks", "-q", queue_name, "-p", "2", "--idle-ms", "60000")
    cli("add", queue_name, "crash", "{}")
    workers.wait_for(r"ended with code 3; restarting it in 0\.5 s \(crash 1\)")
    workers.wait_for(r"process \d+ works on")
    cli("add", queue_name, "greet", '{"name": "Grace"}')
    workers.wait_for("hello Grace")
    assert workers.end() == 0


def test_a_signal_in_the_middle_of_the_start_is_no_crash(start: Start, queue_name: str) -> None:
    workers = start("app:tasks", "-q", queue_name, "-p", "2")
    workers.wait_for("supervises 2 processes")
    assert workers.end() == 0
    assert not any("crash" in line or "was killed" in line for line in workers.said if "works on" not in line)


def test_a_batch_that_can_never_fill_up_is_said(start: Start, queue_name: str) -> None:
    worker = start("app:batch", "-q", queue_name, "-c", "1")
    worker.wait_for("a batch of 2 never fills with --concurrency 1")
    assert worker.end() == 0


def test_a_killed_process_is_named_with_its_signal(cli: Cli, start: Start, queue_name: str) -> None:
    workers = start("app:tasks", "-q", queue_name, "-p", "2")
    victim = int(workers.wait_for(r"process (\d+) works on")[1])
    os.kill(victim, signal.SIGKILL)
    workers.wait_for("was killed by SIGKILL; restarting it")


def test_the_processes_of_a_killed_supervisor_leave_in_order(cli: Cli, start: Start, queue_name: str) -> None:
    workers = start("app:tasks", "-q", queue_name, "-p", "2")
    for _ in range(2):
        workers.wait_for("works on")
    workers.process.kill()
    for _ in range(2):
        workers.wait_for("shut down cleanly")


def test_a_process_is_replaced_after_its_share_of_jobs(server: Server, cli: Cli, start: Start, queue_name: str) -> None:
    workers = start("app:tasks", "-q", queue_name, "--max-jobs", "2", "-c", "1")
    processes: list[str] = []
    for _ in range(6):
        cli("add", queue_name, "greet", '{"name": "Ada"}')
        processes.append(workers.wait_for(r"hello Ada from (\d+)")[1])
    assert processes[::2] == processes[1::2]
    assert len(set(processes)) == 3
    assert workers.end() == 0
    assert not any("(crash" in line for line in workers.said)


def test_a_process_that_has_grown_is_replaced(cli: Cli, start: Start, queue_name: str) -> None:
    workers = start("app:tasks", "-q", queue_name, "--max-rss", "200")
    first = workers.wait_for(r"process (\d+) works on")[1]
    cli("add", queue_name, "grow", "{}")
    workers.wait_for(rf"process {first} reached --max-rss \(200 MB\) with \d+ MB of memory")
    assert workers.wait_for(r"process (\d+) works on")[1] != first


def test_a_changed_file_restarts_the_processes(cli: Cli, start: Start, app: Path, queue_name: str) -> None:
    workers = start("app:tasks", "-q", queue_name, "--reload")
    workers.wait_for("works on")
    app.write_text(APP.replace("hello", "good evening"))
    workers.wait_for(r"app\.py changed")
    workers.wait_for("works on")
    cli("add", queue_name, "greet", '{"name": "Ada"}')
    workers.wait_for("good evening Ada")
    assert workers.end() == 0


def test_a_broken_file_is_said_and_waited_for_under_reload(cli: Cli, start: Start, app: Path, queue_name: str) -> None:
    app.write_text("def broken(:\n")
    workers = start("app:tasks", "-q", queue_name, "--reload")
    workers.wait_for("importing app raised SyntaxError")
    workers.wait_for("waiting for a change")
    app.write_text(APP)
    workers.wait_for("works on")
    assert workers.end() == 0


def test_processes_that_cannot_work_end_with_one_complaint_each(start: Start, queue_name: str) -> None:
    workers = start("app:number", "-q", queue_name, "-p", "2")
    assert workers.ended() == 2
    assert "Traceback" not in "".join(workers.said)
    assert sum("expected a handler, got int" in line for line in workers.said) in (1, 2)


def test_logs_can_be_read_by_machines(start: Start, queue_name: str) -> None:
    worker = start("app:tasks", "-q", queue_name, "--json-logs")
    worker.wait_for("works on")
    worker.end()
    lines = [json.loads(line) for line in worker.said if line.startswith("{")]
    assert {"time", "level", "logger", "message", "pid"} <= set(lines[0])
    assert [line["level"] for line in lines if "SIGTERM" in line["message"]] == ["warning"]


def test_a_worker_answers_probes_and_prometheus(server: Server, cli: Cli, start: Start, queue_name: str) -> None:
    worker = start("app:tasks", "-q", queue_name, "--metrics-port", "0", "--store-results")
    url = worker.wait_for(r"health and metrics on (http://\S+)")[1]
    cli("add", queue_name, "greet", '{"name": "Ada"}', "--wait", "40")
    assert json.loads(_get(f"{url}/readyz"))
    done = f'chasquimq_jobs_completed_total{{name="greet",queue="{queue_name}"}} 1.0'
    assert done in _get(f"{url}/metrics")


def test_every_process_answers_on_a_port_of_its_own(start: Start, queue_name: str) -> None:
    first = _two_free_ports()
    workers = start("app:tasks", "-q", queue_name, "-p", "2", "--metrics-port", str(first))
    ports = {int(workers.wait_for(r"health and metrics on http://127\.0\.0\.1:(\d+)")[1]) for _ in range(2)}
    assert ports == {first, first + 1}


def test_processes_have_names_of_their_own_in_the_group(
    server: Server, cli: Cli, start: Start, queue_name: str
) -> None:
    cli("add", queue_name, "wait", "--lines", stdin="{}\n{}\n")
    flags = ("--group", "night", "--consumer-id", "me", "--shutdown-s", "0.1")
    workers = start("app:tasks", "-q", queue_name, "-p", "2", "-c", "1", *flags)
    for _ in range(2):
        workers.wait_for("waits in")
    *_, holders = server.call_at(f"{{chasqui:{queue_name}}}:stream", "XPENDING", "night")
    assert {name for name, _ in holders} == {b"me", b"me-2"}
    assert workers.end() == 0


def test_a_run_over_its_time_is_dead_after_the_attempts_that_were_set(
    server: Server, cli: Cli, start: Start, queue_name: str
) -> None:
    flags = ("--job-timeout-s", "0.05", "--max-attempts", "2", "--retry-initial-ms", "1", "--retry-jitter-ms", "0")
    worker = start("app:tasks", "-q", queue_name, *flags)
    assert cli("add", queue_name, "wait", "{}", "--wait", "40").code == 1
    (letter,) = cli("dlq", "peek", queue_name, "--json").data
    assert letter["attempts_made"] == 2
    assert worker.end() == 0


def test_a_taken_metrics_port_is_said_without_a_traceback(start: Start, queue_name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = start("app:tasks", "-q", queue_name, "--metrics-port", str(port))
        assert worker.ended() == 1
    assert str(port) in worker.said[-1]
    assert "Traceback" not in "".join(worker.said)


def test_an_unknown_log_level_is_refused(cli: Cli) -> None:
    said = cli("worker", "app:tasks", "-q", "q", "--log-level", "LOUD")
    assert said.code == 1
    assert "'LOUD'" in said.err


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("app", "not of the form module:name"),
        ("nowhere:tasks", "there is no module 'nowhere'"),
        ("app:nothing", "app has no 'nothing'. It has batch, handler, many, plain, pool, tasks."),
        ("app:number", "expected a handler, got int"),
        ("app:greet", "Name the Tasks object it belongs to"),
        ("app:Job", "it is the class Job"),
        ("app:os.getpid", "does not take one argument"),
        ("app.py:tasks", "app:tasks"),
        ("broken:tasks", "importing broken raised ZeroDivisionError: division by zero"),
        ("needs:tasks", "importing needs raised ModuleNotFoundError: No module named 'not_installed'"),
    ],
)
def test_a_wrong_target_is_one_line_that_names_it_and_the_remedy(
    cli: Cli, app: Path, monkeypatch: pytest.MonkeyPatch, target: str, words: str
) -> None:
    app.with_name("broken.py").write_text("1 / 0\n")
    app.with_name("needs.py").write_text("import not_installed\n")
    monkeypatch.chdir(app.parent)
    monkeypatch.setattr("sys.path", [*sys.path])
    said = cli("worker", target, "-q", "q")
    for module in ("app", "broken", "needs"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert said.code == 2
    assert words in said.err
    assert target in said.err
    assert said.err.count("\n") == 1


def test_a_worker_without_a_queue_is_told_to_name_one() -> None:
    said = relevo("worker", "app:tasks")
    assert said.code == 2
    assert "--queue" in said.err


def test_a_server_that_does_not_answer_is_said_at_the_start() -> None:
    said = relevo("--patience", "0.3", "worker", "app:tasks", "-q", "emails", url="redis://127.0.0.1:1")
    assert said.code == 1
    assert said.err.startswith("error: No Redis answers at redis://127.0.0.1:1")


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=limit(30)) as answer:  # noqa: S310 - our own server
        return answer.read().decode()


def _two_free_ports() -> int:
    """The first of two ports that follow each other and that nobody listens on."""
    while True:
        first = free_port()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", first + 1)) != 0:
                return first


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True

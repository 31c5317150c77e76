"""Heavy tests take turns, what shares something stays in one process, and nobody waits for a test that never comes."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.harness.child import Child
from tests.harness.needs import BROWSER, CAPACITY, DATABASE, JVM, PROCESSES, Needs
from tests.harness.turns import Process, Turns

# Each test writes down when it begins and ends, and stays long enough to be met.
RECORDING = """
    import os, pathlib, threading

    import pytest

    LOG = os.environ["TURNS"]

    def say(word, name):
        with open(LOG, "a") as log:
            log.write(f"{word} {os.getpid()} {name}\\n")

    @pytest.mark.parametrize("number", range(COUNT))
    def test_recorded(number, request):
        say("begin", request.node.nodeid)
        threading.Event().wait(STAYS)
        say("end", request.node.nodeid)
"""

WEIGHTS = {
    "tests/acceptance/test_demo.py": JVM,
    "tests/integration/test_a.py": PROCESSES,
    "tests/integration/test_b.py": PROCESSES,
    "tests/unit/test_light.py": 0,
}


def recorded(folder: Path, **environment: str) -> list[tuple[str, str, str]]:
    child = Child(folder)
    for file, weight in WEIGHTS.items():
        count, stays = (3, "0.3") if weight else (20, "0.02")
        child.write(file, RECORDING.replace("COUNT", str(count)).replace("STAYS", stays))
    child.write("tests/console/test_shared.py", RECORDING.replace("COUNT", "8").replace("STAYS", "0.02"))
    log = folder / "turns.log"
    ran = child.run(processes=4, TURNS=str(log), **environment)
    assert ran.counts == {"passed": 3 * 3 + 20 + 8}, ran.said
    found = re.findall(r"^(begin|end) (\d+) (.+)$", log.read_text(), re.MULTILINE)
    return [(word, process, test) for word, process, test in found]


def most_at_once(events: list[tuple[str, str, str]]) -> int:
    weight = most = 0
    for word, _, test in events:
        heavy = WEIGHTS.get(test.partition("::")[0], 0)
        weight += heavy if word == "begin" else -heavy
        most = max(most, weight)
    return most


def test_never_more_weight_at_once_than_the_machine_carries(tmp_path: Path) -> None:
    events = recorded(tmp_path)

    assert JVM <= most_at_once(events) <= CAPACITY


@pytest.mark.whole  # shows that the test above can fail
def test_without_a_bound_the_same_tests_do_meet(tmp_path: Path) -> None:
    """So the test above can fail."""
    assert most_at_once(recorded(tmp_path, RELEVO_TEST_CAPACITY="100")) > CAPACITY


def test_what_shares_something_runs_in_one_process_and_light_tests_fill_the_others(tmp_path: Path) -> None:
    processes: dict[str, set[str]] = defaultdict(set)
    for _, process, test in recorded(tmp_path):
        processes[test.partition("::")[0]].add(process)

    assert len(processes["tests/console/test_shared.py"]) == 1
    assert len(processes["tests/unit/test_light.py"]) > 1


class Held:
    """A process as the scheduler sees one: it runs what it holds in order, and begins only what it knows the next of."""

    def __init__(self, name: str, tests: list[str]) -> None:
        self.gateway = name
        self.tests = tests
        self.queue: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: object) -> None:
        assert isinstance(indices, list)
        self.queue.extend(indices)  # pyright: ignore[reportUnknownArgumentType]

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_run(self) -> bool:
        return len(self.queue) > 1 or (self.shutting_down and bool(self.queue))


def no_difference(first: Process, other: Process) -> None:
    raise AssertionError(f"{first} and {other} have the same tests")


def turns_of(weights: dict[str, int], processes: int) -> tuple[Turns, list[Held]]:
    turns = Turns(
        processes, needs=lambda name: Needs(name.partition(":")[0], weights[name]), collection_differs=no_difference
    )
    held = [Held(f"gw{number}", list(weights)) for number in range(processes)]
    for process in held:
        turns.add_node(process)
    for process in held:
        turns.add_node_collection(process, process.tests)
    turns.schedule()
    return turns, held


def finish(turns: Turns, held: list[Held]) -> list[str]:
    """Lets every process run what it can until all is done; fails when nobody can go on."""
    ran: list[str] = []
    while turns.has_pending:
        if turns.tests_finished:
            for process in held:
                process.shutdown()
        able = [process for process in held if process.can_run]
        assert able, f"nobody can begin a test, and there are tests left: {[process.queue for process in held]}"
        for process in able:
            index = process.queue.pop(0)
            ran.append(process.tests[index])
            turns.mark_test_complete(process, index)
    return ran


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(
    "weights",
    [
        {f"a{number}": JVM for number in range(5)},
        {"c": BROWSER, "d": DATABASE, "p": PROCESSES, "j": JVM, "k": JVM},
        {"light": 0, "j": JVM, "k": JVM, "l": JVM},
        {**{f"group:{number}": JVM for number in range(5)}, "c": BROWSER, "d": BROWSER},
        {"one": 0},
    ],
    ids=["only heavy", "all kinds", "one light", "a group", "one test"],
)
def test_everything_runs_once_whatever_there_is(weights: dict[str, int], processes: int) -> None:
    turns, held = turns_of(weights, processes)

    assert sorted(finish(turns, held)) == sorted(weights)


def test_what_takes_the_place_of_a_dead_process_gets_what_it_had_not_begun() -> None:
    turns, (first,) = turns_of({"group:0": JVM, "group:1": JVM, "group:2": JVM}, 1)

    assert turns.remove_node(first) == "group:0"
    second = Held("gw1", first.tests)
    turns.add_node(second)
    turns.add_node_collection(second, second.tests)
    turns.schedule()

    assert finish(turns, [second]) == ["group:1", "group:2"]


def test_a_process_that_dies_before_it_begins_a_test_costs_none() -> None:
    turns, (first,) = turns_of({"only": 0}, 1)

    assert turns.remove_node(first) is None
    assert turns.has_pending


def test_a_process_that_found_other_tests_is_told_and_runs_none() -> None:
    told: list[tuple[Process, Process]] = []
    turns = Turns(2, needs=lambda name: Needs(name, 0), collection_differs=lambda one, two: told.append((one, two)))
    first, second = Held("gw0", ["a", "b"]), Held("gw1", ["a", "c"])
    for process in (first, second):
        turns.add_node(process)
    for process in (first, second):
        turns.add_node_collection(process, process.tests)
    assert turns.collection_is_completed
    turns.schedule()

    assert told == [(first, second)]
    assert finish(turns, [first]) == ["a", "b"]
    assert second.queue == []


@pytest.mark.whole  # a checkout of its own
def test_in_a_new_checkout_one_process_rewrites_the_tests_and_the_others_wait_for_it(tmp_path: Path) -> None:
    child = Child(tmp_path)
    child.write(
        "test_found.py",
        """
        import os, pathlib, threading

        def say(word):
            with open("found", "a") as found:
                found.write(f"{word} {os.environ['PYTEST_XDIST_WORKER']}\\n")

        say("begins")
        threading.Event().wait(0.3)
        say("ends")

        def test_found():
            pass
        """,
    )

    assert child.run(processes=3, PYTHONDONTWRITEBYTECODE="").counts == {"passed": 1}
    assert (tmp_path / "found").read_text().splitlines()[:2] == ["begins gw0", "ends gw0"]

"""What `make test` leaves out of the product of tests and servers: never a branch of a test, never a server of a file."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.harness.child import Child
from tests.harness.sample import BACKENDS, STORES, chosen, first

ROOT = Path(__file__).parents[2]
LANES = list(BACKENDS)


def collected(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def servers_of(nodeids: list[str]) -> dict[str, set[str]]:
    """The servers of each test, by its name without them."""
    found: dict[str, set[str]] = defaultdict(set)
    for nodeid in nodeids:
        name, _, parameters = nodeid.partition("[")
        if at := re.search(r"redis86|redis7|valkey|cluster", parameters):
            found[f"{name}[{parameters.replace(at[0], '', 1)}"].add(at[0])
    return found


@pytest.mark.timeout(180)
def test_each_test_meets_both_branches_and_each_file_every_server() -> None:
    files = [
        "tests/conformance/test_add.py",
        "tests/conformance/test_leases.py",
        "tests/conformance/test_log_context.py",
    ]
    whole, sample = servers_of(collected(*files)), servers_of(collected("--sample", *files))

    assert sample.keys() == whole.keys(), "every test runs"
    for test, servers in sample.items():
        assert servers & {"redis7", "valkey"}, test
        assert servers & {"redis86", "cluster"}, test
        assert len(servers) < len(whole[test]), test
    for file in files:
        met = {server for test, servers in sample.items() if test.startswith(file) for server in servers}
        assert met == set(LANES), file


@pytest.mark.whole  # finds all tests once more
@pytest.mark.timeout(180)
def test_one_backend_runs_everything_of_it_and_nothing_else() -> None:
    whole = servers_of(collected("tests/conformance/test_add.py"))
    one = servers_of(collected("--backend=valkey", "tests/conformance/test_add.py"))

    assert one == {test: {"valkey"} for test, servers in whole.items() if "valkey" in servers}


def test_a_pick_depends_on_names_only() -> None:
    tests = {f"test_{number}": LANES for number in range(30)}
    file = "tests/conformance/test_any.py"
    picked = dict.fromkeys(chosen(file, tests))

    assert picked == dict.fromkeys(chosen(file, dict(reversed(tests.items())))) | picked
    without = {name: lanes for name, lanes in tests.items() if name != "test_7"}
    assert {pair for pair in picked if pair[0] != "test_7"} == set(chosen(file, without))
    assert {first(name, ["redis7", "valkey"]) for name in tests} == {"redis7", "valkey"}


def test_a_file_with_one_test_still_meets_every_server() -> None:
    assert {at for _, at in chosen("tests/conformance/test_any.py", {"test_only": LANES})} == set(LANES)


def test_a_test_that_names_its_servers_keeps_the_branches_it_has() -> None:
    tests = {f"test_{number}": LANES for number in range(30)} | {
        "test_old": ["redis7"],
        "test_new": ["redis86", "redis7"],
    }
    picked = chosen("tests/conformance/test_any.py", tests)

    assert [at for test, at in picked if test == "test_old"] == ["redis7"]
    assert sorted(at for test, at in picked if test == "test_new") == ["redis7", "redis86"]


def test_what_is_refused_before_a_server_hears_of_it_runs_once() -> None:
    tests = {f"test_{number}": LANES for number in range(30)}
    picked = chosen("tests/conformance/test_any.py", tests, refused=["test_3"])

    assert len([test for test, _ in picked if test == "test_3"]) == 1


def test_what_starts_servers_of_its_own_runs_on_one_of_each_pair() -> None:
    tests = {f"test_{number}": ["redis86", "redis7", "valkey"] for number in range(30)}
    picked = chosen("tests/integration/test_any.py", tests)

    assert len(picked) == 60
    assert {at for _, at in picked} == {"redis86", "redis7", "valkey"}


@pytest.mark.parametrize("room", ["agents", "routing", "people", "audit"])
def test_work_of_people_and_agents_runs_on_one_store_and_each_file_on_all(room: str) -> None:
    """What differs between databases is in the store, and tests/work is about that."""
    tests = {f"test_{number}": list(STORES) for number in range(30)}
    picked = chosen(f"tests/{room}/test_any.py", tests)

    assert len(picked) == 30
    assert {at for _, at in picked} == set(STORES)


def test_work_queues_run_embedded_and_on_one_server_in_its_default_way() -> None:
    lanes = [f"{store}-{path}" for store in STORES for path in ("index", "sql", "alone")]
    tests = {f"test_{number}": lanes for number in range(30)}
    picked: dict[str, list[str]] = defaultdict(list)
    for test, at in chosen("tests/work/test_settling.py", tests):
        picked[test].append(at)

    assert all(len(places) == 2 and "sqlite-alone" in places for places in picked.values())
    assert {at for places in picked.values() for at in places} == {"sqlite-alone", "postgres-sql", "mariadb-index"}


def test_what_is_about_claims_runs_by_sql_embedded_and_on_a_server_and_by_the_index() -> None:
    lanes = [f"{store}-{path}" for store in STORES for path in ("index", "sql", "alone")]
    picked: dict[str, list[str]] = defaultdict(list)
    for test, at in chosen("tests/work/test_order_index.py", {f"test_{number}": lanes for number in range(40)}):
        picked[test].append(at)

    for places in picked.values():
        by_index = [at for at in places if at.endswith("-index")]
        embedded = [at for at in places if at.startswith("sqlite") and at not in by_index]
        assert (len(places), len(by_index), len(embedded)) == (3, 1, 1)
    assert {at for places in picked.values() for at in places} == set(lanes)


def test_a_command_runs_on_one_server_and_each_file_on_cluster_too() -> None:
    tests = {f"test_{number}": list(BACKENDS) for number in range(30)}
    picked = chosen("tests/acceptance/test_any.py", tests)

    assert len(picked) == 31
    assert {at for _, at in picked} == set(BACKENDS)


def test_what_is_marked_whole_is_left_to_the_whole_run(tmp_path: Path) -> None:
    child = Child(tmp_path)
    child.write(
        "test_any.py",
        """
        import pytest

        @pytest.mark.parametrize("size", [1, pytest.param(9, marks=pytest.mark.whole)])
        def test_any(size):
            pass
        """,
    )

    assert child.run("--sample").counts["passed"] == 1
    assert child.run().counts["passed"] == 2

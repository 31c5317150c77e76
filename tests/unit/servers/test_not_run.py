"""A server that cannot be had: its tests are reported as not run, in red, and the run says why."""

import os
import sys
from pathlib import Path

from tests.servers.child import Child

ROOT = Path(__file__).parents[3]
RED = "\x1b[31m"


def test_tests_without_their_server_are_reported_in_red(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RELEVO_")}
    environment |= {"PATH": str(tmp_path), "RELEVO_CACHE": str(tmp_path / "cache")}
    file = "tests/unit/servers/test_servers.py::test_a_shared_server_is_empty_at_the_start_of_a_test"
    run = Child.run(
        sys.executable, "-m", "pytest", "--color=yes", "-p", "no:cacheprovider", file, cwd=ROOT, env=environment
    )
    assert run.code == 0, run.out
    said = [line for line in run.out.splitlines() if RED in line]
    for name in ("redis86", "redis7", "cluster"):
        assert any(f"NOT RUN on {name}: 1 test " in line for line in said), run.out
        assert any(f"{name} could not be had: this machine has no apt-get" in line for line in said), run.out
    assert "1 passed" in run.out  # the embedded Valkey needs nothing

"""The Spark example of the README as a reader runs it: saved as a script of its own, and run twice."""

import sys
from pathlib import Path

import pytest

from tests.servers.child import Child
from tests.servers.server import Server
from tests.support.page import ROOT, WRITTEN_URL, blocks_of

README = ROOT / "README.md"


@pytest.mark.whole  # the page's own test runs it in the session of all tests
@pytest.mark.timeout(300)  # it starts a JVM each time
def test_the_spark_example_of_the_readme_runs_as_a_script_and_once_more(valkey: Server, tmp_path: Path) -> None:
    greet, spark = (block for block in blocks_of(README) if block.language == "python")
    assert "relevo.spark" in spark.text
    script = tmp_path / "script.py"
    script.write_text(greet.text.replace(WRITTEN_URL, valkey.url))
    assert Child.run(sys.executable, script, cwd=tmp_path) == (0, greet.prints, "")
    script.write_text(spark.text.replace(WRITTEN_URL, valkey.url))
    for _ in range(2):
        assert Child.run(sys.executable, script, cwd=tmp_path, timeout=120) == (0, "1 completed so far\n", "")

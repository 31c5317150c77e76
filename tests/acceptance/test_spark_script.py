"""The Spark examples of the README as a reader runs them: saved as a script of their own, and run twice."""

import sys
from pathlib import Path

import pytest

from tests.acceptance.page import ROOT, WRITTEN_URL, blocks_of
from tests.servers.child import Child
from tests.servers.server import Server

README = ROOT / "README.md"


@pytest.mark.timeout(300)  # it starts two JVMs
def test_the_spark_examples_of_the_readme_run_as_a_script_and_once_more(valkey: Server, tmp_path: Path) -> None:
    first, _, rest = README.read_text().partition("\n## Data in, work out: Spark\n")
    examples = [block for block in blocks_of(README, rest.partition("\n## ")[0]) if block.language == "python"]
    greet = next(block for block in blocks_of(README, first) if block.language == "python")
    script = tmp_path / "script.py"
    script.write_text(greet.text.replace(WRITTEN_URL, valkey.url))
    assert Child.run(sys.executable, script, cwd=tmp_path) == (0, greet.prints, "")
    script.write_text("\n".join(block.text for block in examples).replace(WRITTEN_URL, valkey.url))
    printed = "".join(block.prints or "" for block in examples)
    for _ in range(2):
        assert Child.run(sys.executable, script, cwd=tmp_path, timeout=120) == (0, printed, "")

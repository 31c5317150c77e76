"""The promise that a call of a task is checked from the producer on: pyright is run over snippets that say what it finds."""

import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.servers.child import Child

SNIPPETS = sorted((Path(__file__).parent / "snippets").glob("*.py"))


def expected(snippet: Path) -> Counter[tuple[int, str]]:
    lines = enumerate(snippet.read_text().splitlines(), start=1)
    return Counter((number, found[1]) for number, line in lines if (found := re.search(r"# error: (report\w+)", line)))


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda path: path.stem)
def test_the_type_checker_finds_what_the_snippet_says_and_nothing_else(snippet: Path, tmp_path: Path) -> None:
    shutil.copy(snippet, tmp_path)  # as a program that uses relevo, outside of its tree
    settings = {"pythonVersion": "3.11", "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--project",
        str(tmp_path),
        "--pythonpath",
        sys.executable,
    ]
    done = Child.run(*command, cwd=tmp_path)
    found: list[dict[str, Any]] = json.loads(done.out)["generalDiagnostics"]
    said = Counter((each["range"]["start"]["line"] + 1, each.get("rule", each["message"])) for each in found)
    assert said == expected(snippet), "\n".join(each["message"] for each in found)
    assert len(said) > 5

"""A pytest run of a test's own, in a folder of its own, with real processes and the harness of this suite."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PLUGINS = ("xdist.plugin", "pytest_timeout", "tests.harness.plugin")
"""All that is needed: to import the others takes longer than most of these runs."""

_INI = """\
[pytest]
markers =
    refusal: as in the suite
    whole: as in the suite
"""


class Ran(NamedTuple):
    """How a run ended, and what it said."""

    code: int
    said: str

    @property
    def counts(self) -> dict[str, int]:
        """Of the closing line: `{"passed": 3, "failed": 1}`."""
        closing = [line for line in self.said.splitlines() if re.search(r"\d+ \w+.* in [\d.]+s", line)][-1]
        return {
            word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|errors?|skipped|deselected)", closing)
        }

    def named(self, word: str) -> list[str]:
        """Tests that a line of the end names after this word."""
        closing = self.said.partition("= HUNG: ")[2] or self.said.partition("= DID NOT RUN: ")[2]
        return [line.split(" ", len(word.split()))[-1] for line in closing.splitlines() if line.startswith(f"{word} ")]


class Child:
    """A folder with test files; `run()` runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text(_INI)

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))

    def run(self, *arguments: str, processes: int = 2, **environment: str) -> Ran:
        started = self.start(*arguments, processes=processes, environment=environment)
        said, _ = started.communicate()
        return Ran(started.returncode, said)

    def start(
        self,
        *arguments: str,
        processes: int = 2,
        stdout: int = subprocess.PIPE,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        dealt = ["-n", str(processes), "--dist", "loadgroup"] if processes else []
        plugins = [word for name in PLUGINS for word in ("-p", name)]
        command = [sys.executable, "-m", "pytest", *plugins]
        # A run inside a run: what the outer one says to its processes is not meant for these.
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "RELEVO_TEST_"))
        }
        return subprocess.Popen(
            [*command, *dealt, *arguments],
            cwd=self.folder,
            env={**inherited, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(environment or {})},
            stdout=stdout,
            stderr=subprocess.STDOUT,
            text=True,
        )

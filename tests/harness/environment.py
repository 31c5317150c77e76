"""`python3 tests/harness/environment.py DO`: fills .venv, and says what it does, one line a step.

It runs before anything is installed, so it needs Python alone. pip's own words are shown when it fails; else only how far it
is, on one line in a terminal and twice a minute in a log.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

VENV = Path(".venv")
PYTHON = VENV / "bin" / "python"
EXTRAS = "all,iceberg,java,mariadb,postgresql,spark"
_IN_LOG_EVERY = 30.0
_IN_TERMINAL_EVERY = 0.2
_STEP = re.compile(r"(?:Collecting|Downloading|Installing|Building) \S+")
_INSTALLED = re.compile(r"^Successfully installed (.+)$", re.MULTILINE)


class Step:
    """One line of what is being done, until it is done: `what` · the latest thing · how long."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._latest = ""
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Step:
        if not sys.stdout.isatty():
            self._line(f"{self._what} ...\n")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def now(self, latest: str) -> None:
        self._latest = latest

    def done(self, how: str) -> None:
        self._over.set()
        self._thread.join()
        start = "\r\x1b[K" if sys.stdout.isatty() else ""
        self._line(f"{start}{self._what}: {how} ({self._seconds:.0f} s)\n")

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _run(self) -> None:
        in_terminal = sys.stdout.isatty()
        while not self._over.wait(_IN_TERMINAL_EVERY if in_terminal else _IN_LOG_EVERY):
            said = f"{self._what} · {self._seconds:.0f} s{f' · {self._latest}' if self._latest else ''}"
            self._line(f"\r\x1b[K{said[:110]}" if in_terminal else f"{said}\n")

    def _line(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def install(what: str, arguments: Sequence[str]) -> None:
    """Runs `pip install`; ends the program with pip's words when it fails."""
    command = [str(PYTHON), "-m", "pip", "install", "--no-color", "--progress-bar", "off", *arguments]
    said: list[str] = []
    with Step(what) as step:
        pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            if found := _STEP.search(line):
                step.now(found[0])
        if pip.wait() != 0:
            step.done("failed")
            sys.exit("".join(line for line in said if not line.startswith("WARNING"))[-8000:])
        new = _INSTALLED.search("".join(said))
        step.done(f"{len(new[1].split())} installed" if new else "there already")


def requirements(group: str) -> Iterator[str]:
    """What a dependency group asks for. The pip of a new environment is often too old to read groups by itself."""
    import tomllib  # an older Python has none, and is told so by `create`

    groups = tomllib.loads(Path("pyproject.toml").read_text())["dependency-groups"]
    for each in groups[group]:
        if isinstance(each, str):
            yield each
        else:
            yield from requirements(each["include-group"])


def create() -> None:
    """Makes .venv unless there is one with pip in it."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this is what asks
        sys.exit("relevo needs Python 3.11 or newer: make PYTHON=python3.11 ...")
    here = PYTHON.exists() and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False)
    if here and here.returncode == 0:
        return
    with Step("virtual environment") as step:
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            step.done("failed")
            sys.exit(made.stdout + made.stderr)
        step.done(f"made in {VENV}")


def compile_tests() -> None:
    """Lets pytest find all tests once, so that their bytecode is there: six processes that find them at the same time would
    each compile all of them. What is wrong with a test is said by the run that follows."""
    command = [str(PYTHON), "-m", "pytest", "--collect-only", "-qq"]
    with Step("tests, compiled once") as step:
        found = subprocess.run(command, capture_output=True, check=False)
        step.done("done" if found.returncode == 0 else "some cannot be read")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", choices=["packages", "interop", "tests"])
    match parser.parse_args().do:
        case "packages":
            create()
            what = "Python packages (a few minutes the first time)"
            install(what, ["-c", "constraints.txt", "-e", f".[{EXTRAS}]", *requirements("dev")])
        case "interop":
            install("PyPI's chasquimq", ["--no-deps", "-r", "requirements-interop.txt"])
        case _:
            compile_tests()


if __name__ == "__main__":
    main()

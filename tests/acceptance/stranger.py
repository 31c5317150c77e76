"""A stranger's machine: an empty home, an environment with the installed package, a terminal and a Python prompt that last."""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from packaging.requirements import Requirement

from tests.harness.leftovers import marked
from tests.pace import limit
from tests.support.page import ROOT, WRITTEN_URL, WRITTEN_WORK_URL

END = "-- this block is done --"

# Reads one block after the other and runs each in the same namespace, as a prompt does into which they are pasted.
PROMPT = f"""
import sys
namespace = {{"__name__": "__main__"}}
while True:
    lines = []
    for line in iter(sys.stdin.readline, {END + chr(10)!r}):
        if not line:
            sys.exit()
        lines.append(line)
    exec(compile("".join(lines), "pasted", "exec", dont_inherit=True), namespace)
    print({END!r}, flush=True)
"""


class Machine:
    """A folder to work in, a home that is empty, and `pip install 'relevo[all]'` in an environment of its own.

    The wheel is built and installed as pip does it, entry point included. The packages it needs are linked from the environment
    of the tests, and no others: what is not among the requirements of `relevo[all]` cannot be imported.
    """

    def __init__(self, root: Path) -> None:
        self.folder, home, environment = root / "work", root / "home", root / "venv"
        self.folder.mkdir()
        home.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
        (packages,) = environment.glob("lib/python*/site-packages")
        _link(_closure("relevo", {"all"}), packages)
        pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
        wheels = ["--no-deps", "--no-index", "--no-build-isolation", "-w", str(root / "dist"), str(ROOT)]
        subprocess.run([*pip, "wheel", *wheels], check=True)
        (wheel,) = (root / "dist").glob("relevo-*.whl")
        into = ["--python", str(environment / "bin" / "python"), "install", "--no-deps", "--no-index", str(wheel)]
        subprocess.run([*pip, *into], check=True)
        self.environment = marked(
            {
                "HOME": str(home),
                "PATH": f"{environment / 'bin'}:{os.defpath}",
                "LANG": "C.UTF-8",
                "PYTHONDONTWRITEBYTECODE": "1",
            }
        )

    def up(self) -> "Up":
        return Up(self)


class Up:
    """`relevo up` in its own terminal, until the block ends."""

    def __init__(self, machine: Machine) -> None:
        self.process = subprocess.Popen(
            ["relevo", "up"],
            cwd=machine.folder,
            env=machine.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if line.startswith("Ctrl-C"):
                break
        self.redis_url, self.work_url = (
            self._found(r"redis://127\.0\.0\.1:\d+"),
            self._found(r"http://127\.0\.0\.1:\d+"),
        )

    def as_printed(self, text: str) -> str:
        """A page's text for this run: when a port was taken, the reader writes what `relevo up` says instead."""
        return text.replace(WRITTEN_URL, self.redis_url).replace(WRITTEN_WORK_URL, self.work_url)

    def _found(self, pattern: str) -> str:
        found = re.search(pattern, self.said)
        assert found is not None, f"`relevo up` ended with {self.process.wait(limit(30))} and said: {self.said}"
        return found[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.send_signal(signal.SIGINT)
        rest, _ = self.process.communicate(timeout=limit(60))
        if kind is None:
            assert self.process.returncode == 0, self.said + rest


class Session:
    """A program that takes one block after the other; `run` gives back what a block printed on stdout."""

    def __init__(self, machine: Machine, command: list[str], around: tuple[str, str]) -> None:
        self._before, self._after = around
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `close` does; a pipe that nobody reads fills up
        self._process = subprocess.Popen(
            command,
            cwd=machine.folder,
            env=machine.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )

    def run(self, text: str) -> str:
        self._write(f"{self._before}{text}{self._after}")
        said = ""
        for line in self._out:
            if line.rstrip("\n").endswith(END):
                return said + line.rstrip("\n").removesuffix(END)
            said += line
        code = self._process.wait(limit(30))
        self._complaints.seek(0)
        raise AssertionError(f"it ended with {code}:\n{text}\nsaid:\n{said}{self._complaints.read()}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._complaints.close()

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    @property
    def _out(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout


def terminal(machine: Machine) -> Session:
    """A shell that ends at the first command that fails."""
    return Session(machine, ["bash", "--norc", "--noprofile", "-eo", "pipefail"], ("", f"\necho '{END}'\n"))


def prompt(machine: Machine) -> Session:
    return Session(machine, ["python", "-c", PROMPT], ("", f"{END}\n"))


def _closure(name: str, extras: set[str]) -> set[str]:
    """The distributions that installing it brings, itself left out."""
    found: set[str] = set()
    asked = [(name, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while asked:
        each, wanted = asked.pop()
        if (each, frozenset(wanted)) in seen:
            continue
        seen.add((each, frozenset(wanted)))
        for text in metadata.requires(each) or []:
            needed = Requirement(text)
            if any(needed.marker is None or needed.marker.evaluate({"extra": extra}) for extra in (wanted or {""})):
                asked.append((needed.name, set(needed.extras)))
                found.add(needed.name.lower().replace("_", "-"))
    return found - {name}


def _link(distributions: set[str], packages: Path) -> None:
    here = Path(sysconfig.get_paths()["purelib"])
    for name in distributions:
        for top in {file.parts[0] for file in metadata.files(name) or [] if ".." not in file.parts}:
            if top != "__pycache__" and not (packages / top).exists():
                (packages / top).symlink_to(here / top)

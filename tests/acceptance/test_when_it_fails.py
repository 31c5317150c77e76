"""docs/how-to/when-it-fails.md, walked as its reader would: the file it shows, a worker beside it, its commands in order.

Every `text` block of the page must stand, line by line, in what the commands or the worker printed. What differs from one
machine to the next (times, ids that nobody chose, folders, Python's own frames and markers) is evened out on both sides.
"""

import re
from collections.abc import Generator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.servers.child import Child
from tests.servers.server import Server
from tests.support.command_line import shell_environment
from tests.support.page import ROOT, Block, blocks_of

PAGE = ROOT / "docs/how-to/when-it-fails.md"
BROKEN = {"welcome": "w1", "invoice": "i1", "charge": "c1", "resize": "r1", "export": "e1"}
"""The five broken handlers, and the job of each."""

_MARKERS = re.compile(r"^\s*[~^]+\s*$")


def evened_out(text: str) -> list[str]:
    """The lines that say something, without what no two runs share."""
    lines: list[str] = []
    of_library = False
    for line in text.splitlines():
        of_library = not re.match(r'  File ".*\bapp\.py"', line) if line.startswith("  File ") else of_library
        of_library = of_library and line.startswith("  ")
        if of_library or _MARKERS.match(line):
            continue
        line = re.sub(r'File "[^"]*/app\.py"', 'File "app.py"', line)
        line = re.sub(r"\(this is [^)]*\)", "(this is HERE)", line)
        line = re.sub(r"^\d\d:\d\d:\d\d", "TIME", line)
        line = re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "ID", line)
        line = re.sub(r"\bnext run in [\d.]+ m?s\b", "next run in SOON", line)
        if line.strip():
            lines.append(" ".join(line.split()))
    return lines


class Walk:
    """The page's folder, its worker, and everything that was printed so far."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._environment = shell_environment(folder, url)
        self.printed: list[str] = []
        app = next(block for block in blocks_of(PAGE) if block.text.startswith("# app.py"))
        (folder / "app.py").write_text(app.text)
        command = next(block.text for block in blocks_of(PAGE) if block.text.startswith("relevo worker"))
        self.worker = Child("bash", "-c", f"exec {command}", cwd=folder, env=self._environment, merged=True)
        self.worker.wait_for("works on shop")

    def run(self, script: str) -> str:
        """What a command printed; some of them fail, which is the page's subject."""
        done = Child.run("bash", "-c", script, cwd=self._folder, env=self._environment)
        self.printed += [*evened_out(done.out), *evened_out(done.err)]
        return done.out + done.err

    def shows(self, lines: list[str]) -> bool:
        return _stand_in(lines, self.printed) or _stand_in(lines, evened_out("".join(self.worker.said)))


def _stand_in(lines: list[str], printed: list[str]) -> bool:
    """Whether the lines were printed, one right behind the other."""
    return any(printed[at : at + len(lines)] == lines for at in range(len(printed)))


def _for_a_terminal(block: Block) -> bool:
    """Shell blocks but for the worker itself, which the walk has started."""
    return block.language == "sh" and "app:tasks" not in block.text


@pytest.fixture
def walk(valkey: Server, tmp_path: Path) -> Generator[Walk]:
    walk = Walk(tmp_path, valkey.url)
    yield walk
    walk.worker.close()


@pytest.mark.timeout(180)
def test_the_page_shows_what_people_see(walk: Walk) -> None:
    blocks = list(blocks_of(PAGE))
    shown = 0
    for before, block in pairwise(blocks):
        if _for_a_terminal(block):
            walk.run(block.text)
        elif block.language == "text" and before.language == "sh":  # what Python prints is for test_pages.py
            wanted, shown = evened_out(block.text), shown + 1
            what = f"what {block.place} shows:\n" + "\n".join(wanted) + "\n--- printed:\n" + "\n".join(walk.printed)
            walk.worker.wait_until(lambda wanted=wanted: walk.shows(wanted), what)
    assert shown == 10


@pytest.mark.timeout(180)
def test_five_broken_handlers_are_named_with_file_and_line_in_the_terminal_and_by_job_show(walk: Walk) -> None:
    for block in blocks_of(PAGE):
        if block.language == "sh" and any(f"--job-id {job}\n" in block.text for job in BROKEN.values()):
            walk.run(block.text)
    for task, job in BROKEN.items():
        place = rf'File ".*/app\.py", line (\d+), in {task}\b'
        walk.worker.wait_until(
            lambda place=place: re.search(place, "".join(walk.worker.said)) is not None, f"a line of {task}"
        )
        said = walk.run(f"relevo job show shop {job}")
        assert re.search(place, said), said

"""The first pages, walked as a stranger walks them: an empty folder and home, the printed commands, nothing preset. All pages
in one folder, in any order, twice."""

from pathlib import Path

import pytest

from tests.acceptance.stranger import Machine, Up, prompt, terminal
from tests.support.page import ROOT, Block, blocks_of

README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
WORK = ROOT / "docs" / "tutorial-work-queues.md"

ELSEWHERE = ("relevo up", "pip install 'relevo[all]'", "relevo demo", "relevo pipeline ", "make ")
"""What a block may begin with that the walk has done or leaves to other tests: set-up, the other terminal, demo and lake."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("walks", [1, pytest.param(2, marks=pytest.mark.whole)])
def test_a_stranger_walks_the_first_pages_and_once_more_in_one_folder(walks: int, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for order in ((README, TUTORIAL, WORK), (WORK, TUTORIAL, README))[:walks]:
        with machine.up() as up:
            for page in order:
                walk(machine, up, page)
    assert list((tmp_path / "home").iterdir()) == [], "nothing of ours belongs into a home"


def test_the_first_pages_begin_with_what_to_install() -> None:
    for page in (README, TUTORIAL, WORK):
        text = page.read_text()
        assert "pip install 'relevo[all]'" in text.partition("relevo up\n")[0], (
            f"{page.name} does not say what to install"
        )


def test_the_readme_is_short_enough_to_be_read() -> None:
    assert len(README.read_text().splitlines()) <= 160


def walk(machine: Machine, up: Up, page: Path) -> None:
    """Runs every block of the page in its order; what a block is said to print must be what it prints."""
    shell, python = terminal(machine), prompt(machine)
    try:
        for block in blocks_of(page):
            if block.language not in ("sh", "python") or _is_elsewhere(block) or "pyspark" in _needs(block):
                continue
            said = (shell if block.language == "sh" else python).run(up.as_printed(block.text))
            if block.prints is not None:
                assert said == block.prints, f"{block.place} prints something else than the page says"
    finally:
        shell.close()
        python.close()


def _is_elsewhere(block: Block) -> bool:
    return block.marked_not_run and block.text.startswith(ELSEWHERE)


def _needs(block: Block) -> str:
    """Spark is half a gigabyte, and not part of `relevo[all]`: tests/acceptance/test_pages.py runs its block."""
    return "pyspark" if "relevo.spark" in block.text else ""

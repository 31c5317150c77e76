"""The maps a newcomer reads first: CONTRIBUTING's map of the source, and the documentation's first page."""

import re
import tomllib
from pathlib import Path

from tests.acceptance.page import ROOT

DOCS = ROOT / "docs"
START = DOCS / "README.md"


def test_the_map_of_the_source_shows_every_room() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where things are")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| `(\w+)/?` \|", section, re.MULTILINE)
    rooms = [file.parent.name for file in (ROOT / "src" / "relevo").glob("*/__init__.py")]
    assert sorted(shown) == sorted(rooms)


def test_the_first_page_links_every_page_once() -> None:
    linked = [(START.parent / target).resolve() for target in _links(START)]
    pages = sorted(page for page in DOCS.rglob("*.md") if page != START)
    assert [str(page.relative_to(DOCS)) for page in pages if linked.count(page) != 1] == []


def test_the_first_page_is_prose() -> None:
    assert [line for line in START.read_text().splitlines() if line.startswith("|")] == []


def test_the_oldest_pytest_we_ask_for_can_read_our_settings() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    least = [each for each in project["project"]["optional-dependencies"]["dev"] if each.startswith("pytest>")]
    assert least == [f"pytest>={project['tool']['pytest']['minversion']}"]


def _links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())

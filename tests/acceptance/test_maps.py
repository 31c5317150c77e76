"""The maps a newcomer reads first: CONTRIBUTING's map of the source, and the documentation's first page."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.harness.environment import EXTRAS, requirements
from tests.support.page import ROOT, pages

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


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_to_a_heading_finds_it(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text())
    broken = [
        f"{file}#{heading}" for file, heading in links if heading not in _headings(page.parent / file if file else page)
    ]
    assert broken == []


def test_the_oldest_pytest_we_ask_for_can_read_our_settings() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    least = [each for each in project["dependency-groups"]["test"] if each.startswith("pytest>")]
    assert least == [f"pytest>={project['tool']['pytest']['minversion']}"]


def test_what_developers_need_is_offered_to_no_user() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    offered = set(project["project"]["optional-dependencies"])
    assert offered & {"dev", "lint", "test", "types"} == set()
    assert set(EXTRAS.split(",")) <= offered
    named = {each for name in project["dependency-groups"] if name != "dev" for each in requirements(name)}
    assert set(requirements("dev")) == named


def _headings(page: Path) -> set[str]:
    """The anchors of a page, as a forge makes them from its headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def _links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())

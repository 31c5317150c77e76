"""Suites of tests stand alone: what two of them need is in tests/support, or in a module beside what it is about."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = {"support", "servers", "harness"}

MAY = {
    ("acceptance", "agents"),
    ("acceptance", "api"),
    ("acceptance", "spark"),
    ("api", "agents"),
    ("audit", "work"),
    ("client", "api"),
    ("console", "api"),
    ("integration", "conformance"),
    ("interop", "conformance"),
    ("interop", "property"),
    ("people", "api"),
    ("people", "property"),
    ("routing", "api"),
    ("routing", "people"),
    ("spark", "interop"),
    ("typing", "acceptance"),
    ("unit", "acceptance"),
}
"""Suites that use a module of another. None of them is a conftest, and the list is to become shorter."""


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_no_suite_takes_fixtures_from_another_and_only_named_ones_take_anything() -> None:
    found: set[tuple[str, str]] = set()
    suites = {folder.name for folder in (ROOT / "tests").iterdir() if folder.is_dir()} - SHARED
    for suite in suites:
        for file in (ROOT / "tests" / suite).rglob("*.py"):
            for module in imported(file):
                top, _, rest = module.partition(".")
                other = rest.partition(".")[0]
                if top == "tests" and other in suites and other != suite:
                    assert not module.endswith(".conftest"), f"{file.relative_to(ROOT)} imports {module}"
                    found.add((suite, other))
    assert found == MAY

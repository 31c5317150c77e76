"""Suites of tests stand alone: what two of them need is in tests/support, or in a module beside what it is about."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = {"support", "servers", "harness"}

MAY = {
    ("acceptance", "spark"),
    ("typing", "acceptance"),
}
"""Suites that use a module of another. None of them is a conftest, and the list is to become shorter."""


NO_ROOMS = {"benchmarks", "servers", "tools"}
"""What has unit tests and is not in src/relevo."""


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


def test_a_unit_test_lies_where_src_has_its_module() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {file.parent.relative_to(unit) for file in unit.rglob("test_*.py")}
    rooms = [folder for folder in folders if folder.parts and folder.parts[0] not in NO_ROOMS]
    assert rooms
    assert [str(folder) for folder in rooms if not (ROOT / "src" / "relevo" / folder).is_dir()] == []

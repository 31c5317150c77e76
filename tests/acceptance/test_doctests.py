"""Every example in a docstring of the source is right."""

import doctest
import importlib
import pkgutil
import tempfile
from pathlib import Path

import pytest

import relevo

SOURCE = Path(relevo.__path__[0]).parent


def _source(module: str) -> str:
    """Read, not imported: most modules have no example, and a test for each of them would only import it."""
    path = Path(*module.split("."))
    file = SOURCE / path.with_suffix(".py")
    return (file if file.is_file() else SOURCE / path / "__init__.py").read_text()


# Run by alembic, inside a command of its own: importing it means migrating something.
NOT_MODULES = {"relevo.__main__", "relevo.work.store.migrations.env"}

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(relevo.__path__, "relevo.")
    if module.name not in NOT_MODULES and ">>> " in _source(module.name)
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # an example may leave a folder
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_there_are_examples_to_check() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [case for name in MODULES for case in finder.find(importlib.import_module(name)) if case.examples]
    assert len(examples) > 15

"""docs/api-policy.md: the list of public names is the one in the code, and short."""

import re
from importlib import import_module

import pytest

from tests.support.page import ROOT

MOST = 400
"""Names that a release promises to keep. Whoever needs more should first look for what can go."""

_LIST = (ROOT / "docs" / "api-policy.md").read_text().partition("\n## The list\n")[2]
PUBLIC = {
    found["module"]: re.findall(r"`(\w+)`[,.]", found["names"].rpartition("\n\n")[2])
    for found in re.finditer(
        r"^### `(?P<module>[\w.]+)`\n(?P<names>.*?)\s*(?=^### |\Z)", _LIST, re.MULTILINE | re.DOTALL
    )
}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_module_exports_the_names_in_the_list_and_no_others(module: str) -> None:
    exported: list[str] = import_module(module).__all__
    assert sorted(PUBLIC[module], key=str.lower) == sorted(exported, key=str.lower)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_name_in_the_list_can_be_imported(module: str) -> None:
    assert [name for name in PUBLIC[module] if not hasattr(import_module(module), name)] == []


def test_the_list_is_short() -> None:
    assert len(PUBLIC) >= 7
    assert sum(len(names) for names in PUBLIC.values()) <= MOST


def test_what_the_reference_describes_is_in_the_list() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text()
    described = set(re.findall(r"^`from ([\w.]+) import …`$", reference, re.MULTILINE))
    assert described
    assert sorted(described - set(PUBLIC)) == []

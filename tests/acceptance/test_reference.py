"""docs/reference.md: says what there is, all of it, as it is now."""

import ast
import re
import sys
from collections.abc import Iterator
from subprocess import run

import pytest
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

import relevo
from relevo.cli import app
from tests.acceptance import options_page, views_page
from tests.acceptance.reference import PAGE, PUBLIC, SAME_NAME, classes_of_ours, of_group, page
from tests.support.page import ROOT, blocks_of


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "write it anew with `make reference`"


def test_the_page_of_views_is_up_to_date() -> None:
    assert views_page.PAGE.read_text() == views_page.page(), "write it anew with `make reference`"


def test_the_page_of_options_is_up_to_date() -> None:
    assert options_page.PAGE.read_text() == options_page.page(), "write it anew with `make reference`"


@pytest.mark.parametrize("name", [name for module in PUBLIC for name in module.__all__])
def test_every_public_name_has_its_place(name: str) -> None:
    assert f"\n### `{name}`\n" in PAGE.read_text()


def test_public_names_are_seen_before_they_are_loaded() -> None:
    seen = run([sys.executable, "-c", "import relevo; print(*dir(relevo))"], capture_output=True, text=True, check=True)
    assert set(relevo.__all__) <= set(seen.stdout.split())


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_what_the_first_pages_use_stands_in_the_reference(page: str) -> None:
    sections = _sections()
    owners = {"job": "Job", "queue": "Queue", "worker": "Worker"}
    used = {
        (owners[node.value.id], node.attr)
        for block in blocks_of(ROOT / page)
        if block.language == "python"
        for node in ast.walk(ast.parse(block.text))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in owners
    }
    assert used
    assert [use for use in sorted(used) if not re.search(rf"\b{use[1]}\b", sections[use[0]])] == []


def test_every_class_of_ours_that_a_signature_names_is_described() -> None:
    """`close() -> Told` once stood there, and `worker.settled` in a tutorial; nobody could read what either was."""
    python = PAGE.read_text().partition("\n## Command line\n")[0]
    calls = [part for part in re.findall(r"```text\n(.*?)```", python, re.DOTALL) if re.match(r"\w+\(", part)]
    rows = re.findall(r"^\| `(.*?)` \|", python, re.MULTILINE)
    named = {name for signature in (*calls, *rows) for name in re.findall(r"\b[A-Z]\w+\b", signature)}
    assert {"Job", "Signal", "AlreadyDone"} <= named
    assert sorted((named & classes_of_ours()) - set(_sections()) - SAME_NAME) == []


def test_every_command_is_there_with_all_its_options() -> None:
    sections = _sections()
    walked = dict(_commands(get_command(app), "relevo"))
    assert {"relevo worker", "relevo schedule add", "relevo job show", "relevo obliterate"} <= set(walked)
    missing = [
        f"{path} {option}" for path, options in walked.items() for option in options if option not in sections[path]
    ]
    assert missing == []


def _sections() -> dict[str, str]:
    return {part.partition("`\n")[0]: part for part in PAGE.read_text().split("\n### `")}


def _commands(command: object, path: str) -> Iterator[tuple[str, list[str]]]:
    assert isinstance(command, TyperGroup)
    for name, each in command.commands.items():
        if isinstance(each, TyperGroup):
            if each.hidden:  # another name of a command that is there
                continue
            yield from _commands(each, f"{path} {name}")
        else:
            options = [option for option in each.params if isinstance(option, TyperOption) and not of_group(option)]
            yield f"{path} {name}", [word for option in options for word in (*option.opts, *option.secondary_opts)]

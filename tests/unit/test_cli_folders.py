"""The folders of the command line: which may import which, no circles, and a command's name leads to its file."""

from collections.abc import Iterator
from pathlib import Path

from relevo.cli.commands import PLACES
from tests.unit.test_architecture import imports_of

SRC = Path(__file__).parents[2] / "src"
CLI = "relevo.cli"

# What all commands share knows no command; a kind of command knows others only where it is made of them.
MAY_IMPORT: dict[str, set[str]] = {
    "shell": set(),
    "queues": {"shell"},
    "workers": {"shell"},
    "database": {"shell"},
    "pipeline": {"shell", "database"},
    "work": {"shell", "database"},
    "servers": {"shell", "database", "work", "workers"},  # `up` serves work queues, `serve` runs under the supervisor
}
SEVERAL_COMMANDS = {"queue_ops"}
"""Files with commands of other names: too small for one each."""


def imports() -> dict[str, set[str]]:
    """The modules of the command line with those of its modules that they import, also for types and inside functions."""
    found: dict[str, set[str]] = {}
    for file in sorted((SRC / "relevo/cli").rglob("*.py")):
        module = ".".join(file.relative_to(SRC).with_suffix("").parts)
        name = module.removesuffix(".__init__")
        found[name] = {each for _, each in imports_of(file, module, SRC) if each.startswith(f"{CLI}.")} - {name}
    return found


def folder(module: str) -> str | None:
    parts = module.removeprefix(f"{CLI}.").split(".")
    return parts[0] if parts[0] in MAY_IMPORT else None


def test_a_folder_imports_only_what_it_may() -> None:
    wrong = [
        f"{module} imports {target}"
        for module, targets in imports().items()
        for target in targets
        if (here := folder(module)) is not None and folder(target) not in {here, *MAY_IMPORT[here]}
    ]
    assert wrong == []


def test_every_folder_has_its_line() -> None:
    assert {path.name for path in (SRC / "relevo/cli").iterdir() if (path / "__init__.py").exists()} == set(MAY_IMPORT)


def test_no_module_imports_itself_through_others() -> None:
    graph = imports()

    def reached(start: str) -> Iterator[str]:
        seen, left = set[str](), [start]
        while left:
            for each in graph.get(left.pop(), set()) - seen:
                seen.add(each)
                left.append(each)
                yield each

    assert [module for module in graph if module in reached(module)] == []


def test_a_command_is_in_a_file_or_folder_of_its_name() -> None:
    lost = {name: place for name, place in PLACES.items() if not {name, *SEVERAL_COMMANDS} & set(place.split("."))}
    assert lost == {}

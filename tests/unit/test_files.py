"""How files lie: how long they are, what they are called, who loads a script, who sets what on whom."""

import ast
from collections.abc import Iterator
from pathlib import Path

from relevo.cli.commands import PLACES
from tests.unit.test_architecture import PACKAGE, ROOT, module_of, tree_of

BUILT_WHOLE = (
    *(
        "wire",
        "broker",
        "engine",
        "outbox",
        "compat",
        "metrics",
        "contract",
        "agents",
        "api",
        "client",
        "console",
        "cli",
    ),
    *("bench", "testing"),
)
"""Rooms whose parts have at their construction all that they need."""

MAX_LINES = 500
COUNTED = {".py", ".lua", ".sql", ".html", ".js", ".css"}
NAMES_THAT_SAY_NOTHING = {"util", "utils", "helper", "helpers", "common", "misc"}
SCRIPT_LOADERS = {"script", "_read"}
SEVERAL_COMMANDS = {"queue_ops"}
"""Files with commands of other names: too small for one each."""


def test_no_file_is_too_long() -> None:
    assert list(long_files(ROOT)) == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert list(empty_names(ROOT)) == []


def test_nothing_is_kept_out_of_the_formatters_way() -> None:
    assert list(unformatted(ROOT)) == []


def test_every_script_has_exactly_one_caller() -> None:
    assert list(script_problems(ROOT / "src")) == []


def test_nothing_is_hung_on_a_part_after_its_construction() -> None:
    assert list(hung_attributes(ROOT / "src")) == []


def test_a_command_is_in_a_file_or_folder_of_its_name() -> None:
    lost = {name: place for name, place in PLACES.items() if not {name, *SEVERAL_COMMANDS} & set(place.split("."))}
    assert lost == {}


# --- the checks ---------------------------------------------------------------------------------------------------


def _files(root: Path, suffixes: set[str]) -> Iterator[Path]:
    for top in ("src", "tests", "chaos", "benchmarks", "examples"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix in suffixes and not {"vendor", "node_modules", "__pycache__"} & set(file.parts):
                yield file


def long_files(root: Path) -> Iterator[str]:
    for file in _files(root, COUNTED):
        lines = len(file.read_text().splitlines())
        if lines > MAX_LINES:
            yield f"{file.relative_to(root)} has {lines} lines"


def empty_names(root: Path) -> Iterator[str]:
    for file in _files(root, {".py"}):
        for name in file.relative_to(root).with_suffix("").parts:
            if name.removeprefix("test_").strip("_").lower() in NAMES_THAT_SAY_NOTHING:
                yield f"{file.relative_to(root)}: {name!r} does not say what is in it"


def unformatted(root: Path) -> Iterator[str]:
    for file in _files(root, {".py"}):
        if any(comment in file.read_text() for comment in ("# fmt" + ": skip", "# fmt" + ": off")):
            yield str(file.relative_to(root))


def hung_attributes(src: Path) -> Iterator[str]:
    """Attributes of a part that another file sets. Records (dataclasses, structs, classes with slots) are there to be filled
    in by whoever holds them; a part is made with all that it needs, and from then on only does what its methods say."""
    files = [file for room in BUILT_WHOLE for file in sorted((src / PACKAGE / room).rglob("*.py"))]
    trees = {file: ast.parse(file.read_text()) for file in files}
    parts: dict[str, set[Path]] = {}
    fields: set[str] = set()
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                if _is_record(node):
                    fields |= set() if _is_frozen(node) else _attributes(node)
                else:
                    for name in _attributes(node):
                        parts.setdefault(name, set()).add(file)
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store) or _is_self(node.value):
                continue
            if node.attr in parts and node.attr not in fields and file not in parts[node.attr]:
                yield f"{module_of(file, src)}:{node.lineno} sets {ast.unparse(node)}"


def _attributes(made: ast.ClassDef) -> set[str]:
    """What a class declares in its body, and what its methods set on itself."""
    declared = {
        node.target.id for node in made.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    slots = {
        part.value
        for node in made.body
        if isinstance(node, ast.Assign) and _called(node.targets[0]) == "__slots__"
        for part in ast.walk(node.value)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }
    own = {
        node.attr
        for node in ast.walk(made)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value)
    }
    return declared | slots | own


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in {"self", "cls"}


def _is_record(made: ast.ClassDef) -> bool:
    has_slots = any(isinstance(node, ast.Assign) and _called(node.targets[0]) == "__slots__" for node in made.body)
    decorated = any("dataclass" in ast.unparse(each) for each in made.decorator_list)
    return has_slots or decorated or any(_called(base) in {"Struct", "NamedTuple", "TypedDict"} for base in made.bases)


def _is_frozen(made: ast.ClassDef) -> bool:
    said = [ast.unparse(each) for each in (*made.decorator_list, *made.keywords)]
    return any("frozen=True" in each for each in said) or any(_called(base) == "NamedTuple" for base in made.bases)


def script_problems(src: Path) -> Iterator[str]:
    """Scripts nobody loads or several load, that do not lie beside their caller, and loads of scripts that do not exist."""
    scripts = {file.stem: file for file in sorted(src.rglob("*.lua"))}
    shared = {
        line.removeprefix("--!")
        for file in scripts.values()
        for line in file.read_text().splitlines()
        if line[:3] == "--!"
    }
    shared = {name for name in scripts if name in shared or name.partition("_")[0] in shared & {"gate"}}
    callers: dict[str, list[tuple[Path, int]]] = {name: [] for name in scripts if name not in shared}
    for file in sorted(src.rglob("*.py")):
        for line, name in _scripts_loaded(file):
            callers.setdefault(name, []).append((file, line))
    for name, places in callers.items():
        told = [f"{file.relative_to(src)}:{line}" for file, line in places]
        if name not in scripts:
            yield f"{name}.lua does not exist, but {told[0]} loads it"
        elif len(places) != 1:
            yield f"{name}.lua has {len(places)} callers: {', '.join(told) or 'none'}"
        elif scripts[name].parent != places[0][0].parent / "lua":
            yield f"{name}.lua does not lie beside {told[0]}, which loads it"


def _scripts_loaded(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and _called(node.func) in SCRIPT_LOADERS:
            for argument in node.args:
                for part in ast.walk(argument):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield node.lineno, part.value


def _called(function: ast.expr) -> str:
    match function:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


# --- the checks of the checks -------------------------------------------------------------------------------------


def test_long_files_and_empty_names_are_found(tmp_path: Path) -> None:
    files = {
        "src/relevo/long.py": "x = 1\n" * 501,
        "src/relevo/fits.lua": "-- a\n" * 500,
        "src/relevo/utils.py": "",
        "tests/helpers/test_common.py": "",
        "src/relevo/static/vendor/long.js": "x\n" * 900,
    }
    root = tree_of(tmp_path, files)
    assert list(long_files(root)) == ["src/relevo/long.py has 501 lines"]
    assert [line.split(": ")[1].split(" ")[0] for line in empty_names(root)] == [
        "'utils'",
        "'helpers'",
        "'test_common'",
    ]


def test_what_is_kept_from_the_formatter_is_found(tmp_path: Path) -> None:
    kept, free = "x = [1,\n     2]  # fmt" + ": skip", "x = 1  # fmt is what it is"
    root = tree_of(tmp_path, {"src/relevo/kept.py": kept, "tests/free.py": free})
    assert list(unformatted(root)) == ["src/relevo/kept.py"]


def test_scripts_without_their_one_caller_are_found(tmp_path: Path) -> None:
    files = {
        "lua/good.lua": "--!part",
        "lua/part.lua": "",
        "lua/twice.lua": "",
        "lua/unused.lua": "",
        "lua/away.lua": "",
        "a.py": "GOOD = script('good', __name__)\nTWICE = script('twice', __name__)\nGONE = scripts.script('gone')",
        "b.py": "TWICE = script('twice', __name__)",
        "c/d.py": "AWAY = script('away', __name__)",
    }
    assert list(script_problems(tree_of(tmp_path, files))) == [
        "away.lua does not lie beside c/d.py:1, which loads it",
        "twice.lua has 2 callers: a.py:2, b.py:1",
        "unused.lua has 0 callers: none",
        "gone.lua does not exist, but a.py:3 loads it",
    ]


def test_what_is_hung_on_a_part_is_found(tmp_path: Path) -> None:
    files = {
        "engine/runner.py": "class Runner:\n    def __init__(self):\n        self.limiter = None\n        self.paused = False",
        "engine/worker.py": "class Worker:\n    def __init__(self):\n        self.runner = Runner()\n"
        "        self.runner.limiter = 1\n        self.runner.paused, health = True, 2\n        delivery.lost = True",
        "engine/delivery.py": "class Delivery(msgspec.Struct):\n    lost: bool\nclass Keeper:\n    lost = True",
        "engine/health.py": "@dataclass(frozen=True)\nclass Health:\n    paused: bool",
        "broker/tls.py": "context.check_hostname = False",
    }
    src = tree_of(tmp_path, {f"{PACKAGE}/{name}": body for name, body in files.items()})
    assert list(hung_attributes(src)) == [
        "relevo.engine.worker:4 sets self.runner.limiter",
        "relevo.engine.worker:5 sets self.runner.paused",
    ]

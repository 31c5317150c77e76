"""The shape of the tree: which room may import which, how long files are, what they are called, who calls a script."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "relevo"

# Data flows one way (engine/queue -> wire -> broker -> Redis …). A room may import itself and what is listed here; a
# dotted entry opens only that part. "*" is for what stands outside the rooms. A new room needs a line, and a reason.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "contract": {"errors"},  # the types of HTTP: the server and the client speak of the same
    "wire": {"errors"},
    "broker": {"wire", "errors"},
    "engine": {"broker", "wire", "errors"},
    "work": {"contract", "engine", "broker", "wire", "errors"},
    "agents": {"contract", "work", "engine", "broker", "wire", "errors"},
    "api": {"contract", "agents", "work", "engine", "broker", "wire", "errors"},
    "client": {"contract", "errors"},  # talks HTTP: needs nothing of what it talks to
    "console": {"contract", "work", "wire", "errors"},  # pages for people: beside the HTTP API, not on top of it
    # The same URLs as the engine, sockets of its own; a consumer of Spark takes and settles jobs as the engine does.
    "pipeline": {"work.store", "broker.address", "engine.batch_consumer", "wire", "errors"},
    "spark": {"pipeline", "errors"},  # what pipeline has for programs, in one import
    "outbox": {"engine", "broker.address", "wire", "errors"},  # needs SQLAlchemy, an extra
    "metrics": {"engine", "broker", "wire", "errors"},  # listens to the engine, which knows nothing of it
    "logs": {"engine.consuming.job_context", "engine.job.redaction", "errors"},
    "compat": {"engine", "broker", "wire", "errors"},  # other libraries' signatures, on top of the engine
    "bench": {"engine", "broker", "wire", "errors"},  # measures the engine, for `relevo bench` and benchmarks/
    # A story told by `relevo demo`, about all three rooms.
    "demo": {"api", "client", "work", "pipeline", "engine", "broker", "wire", "errors"},
    "testing": {"*"},
    "cli": {"*"},
    "__main__": {"*"},
    "__init__": {"*"},
}

# Inside a room: what a part may import of it, beside itself. The engine's parts are a job's walk (engine/__init__.py). A room
# that has no lines here is not split yet.
ENGINE_BASE = {"job", "service", "events", "tracing"}
BRINGING_JOBS = {"schedules", "lanes"}
WORK_BASE = {"caller", "clock", "faults", "pagination", "queue_record"}
MESSAGES = WORK_BASE | {"store", "message", "tenancy"}

INNER: dict[str, dict[str, set[str]]] = {
    "engine": {
        "job": set(),
        "service": set(),
        "events": {"job"},
        "tracing": set(),
        "schedules": ENGINE_BASE,
        "lanes": ENGINE_BASE,
        "producing": ENGINE_BASE | BRINGING_JOBS,
        "admin": ENGINE_BASE | BRINGING_JOBS | {"producing"},
        "settling": ENGINE_BASE | BRINGING_JOBS,
        "consuming": ENGINE_BASE | BRINGING_JOBS | {"settling", "admin"},
        "duties": ENGINE_BASE | BRINGING_JOBS | {"settling"},
        "queue": ENGINE_BASE | BRINGING_JOBS | {"producing", "admin"},
        "sync_queue": ENGINE_BASE | BRINGING_JOBS | {"producing", "admin", "queue"},
        "worker": ENGINE_BASE | BRINGING_JOBS | {"settling", "admin", "consuming", "duties"},
        "batch_consumer": ENGINE_BASE | BRINGING_JOBS | {"settling", "consuming", "duties"},
        "tasks": {"*"},
    },
    "work": {
        **{part: set[str]() for part in WORK_BASE},
        "store": WORK_BASE,
        **{part: WORK_BASE | {"store"} for part in ("message", "tenancy", "ready_index", "streams")},
        **{part: WORK_BASE | {"store", "tenancy"} for part in ("access", "schemas", "webhooks")},
        **dict.fromkeys(("reading", "broadcast"), MESSAGES),
        "consume": MESSAGES | {"broadcast", "ready_index"},
        "dead_letters": MESSAGES | {"broadcast", "streams"},
        "review": MESSAGES | {"dead_letters", "reading", "schemas", "streams"},
        "routing": MESSAGES | {"broadcast", "dead_letters", "review", "schemas", "streams"},
        "publish": MESSAGES | {"broadcast", "review", "routing", "schemas"},
        "retention": MESSAGES | {"dead_letters", "review", "streams", "webhooks"},
        "audit": MESSAGES | {"reading", "review"},
        "work_queues": {"*"},  # the wiring: it imports all of them, and none imports it
    },
}

BUILT_WHOLE = ("wire", "broker", "engine", "outbox", "compat")
"""Rooms whose parts have at their construction all that they need."""

MAX_LINES = 500
COUNTED = {".py", ".lua", ".sql", ".html", ".js", ".css"}
NAMES_THAT_SAY_NOTHING = {"util", "utils", "helper", "helpers", "common", "misc"}
SCRIPT_LOADERS = {"script", "_read"}


def test_rooms_import_only_what_they_may() -> None:
    assert list(forbidden_imports(ROOT / "src")) == []


def test_parts_of_a_room_import_only_what_they_may() -> None:
    assert list(forbidden_inside(ROOT / "src")) == []


def test_no_modules_import_one_another() -> None:
    """Imports for types only count: a reader has to know both files all the same."""
    assert import_cycles(ROOT / "src") == []


def test_a_queue_loads_nothing_of_workers() -> None:
    listed = (
        "import sys, relevo; relevo.Queue; print(*(name for name in sys.modules if name.startswith('relevo.engine.')))"
    )
    loaded = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True).stdout.split()
    assert "relevo.engine.queue" in loaded
    assert [name for name in loaded if name.split(".")[2] in {"consuming", "settling", "duties", "worker"}] == []


def test_no_file_is_too_long() -> None:
    assert list(long_files(ROOT)) == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert list(empty_names(ROOT)) == []


def test_every_script_has_exactly_one_caller() -> None:
    assert list(script_problems(ROOT / "src")) == []


def test_nothing_is_hung_on_a_part_after_its_construction() -> None:
    assert list(hung_attributes(ROOT / "src")) == []


# --- the checks ---------------------------------------------------------------------------------------------------


def forbidden_imports(src: Path) -> Iterator[str]:
    """Imports that break MAY_IMPORT, as sentences."""
    for file in sorted((src / PACKAGE).rglob("*.py")):
        module = _module(file, src)
        room = _room(module)
        if room not in MAY_IMPORT:
            yield f"{module} is in room {room!r}, which has no line in MAY_IMPORT"
            continue
        for line, target in imports_of(file, module, src):
            if not _may(room, target):
                yield f"{module}:{line} imports {target}"


def forbidden_inside(src: Path) -> Iterator[str]:
    """Imports that break INNER, as sentences."""
    for room, parts in INNER.items():
        for file in sorted((src / PACKAGE / room).rglob("*.py")):
            module = _module(file, src)
            part = _part(module)
            if part and part not in parts:
                yield f"{module} is in part {part!r} of {room}, which has no line in INNER"
                continue
            for line, target in imports_of(file, module, src):
                other = _part(target)
                inside = target.startswith(f"{PACKAGE}.{room}.") and other != part
                if part and inside and "*" not in parts[part] and other not in parts[part]:
                    yield f"{module}:{line} imports {target}"


def import_cycles(src: Path) -> list[list[str]]:
    """Groups of modules of which each imports the others, over however many steps."""
    files = {_module(file, src): file for file in sorted((src / PACKAGE).rglob("*.py"))}
    imported = {
        module: {target for _, target in imports_of(file, module, src) if target in files and target != module}
        for module, file in files.items()
    }
    reach: dict[str, set[str]] = {}
    for module in files:
        seen, ahead = set[str](), list(imported[module])
        while ahead:
            target = ahead.pop()
            if target not in seen:
                seen.add(target)
                ahead.extend(imported[target])
        reach[module] = seen
    groups = {
        tuple(sorted({module} | {other for other in reach[module] if module in reach[other]}))
        for module in files
        if module in reach[module]
    }
    return [list(group) for group in sorted(groups)]


def imports_of(file: Path, module: str, src: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything of ours that a file imports, also for types only and inside functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.stmt | ast.expr):
            for name in _names_imported(node, module, src):
                if name == PACKAGE or name.startswith(f"{PACKAGE}."):
                    yield node.lineno, name


def _names_imported(node: ast.AST, module: str, src: Path) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom():
            base = _absolute(node, module)
            for alias in node.names:  # `from relevo.broker import embedded` is an import of relevo.broker.embedded
                inner = src.joinpath(*base.split("."), alias.name)
                is_module = inner.is_dir() or inner.with_suffix(".py").exists()
                yield f"{base}.{alias.name}" if is_module else base
        case ast.Call(
            func=ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            yield name
        case _:
            pass


def _absolute(node: ast.ImportFrom, module: str) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.split(".")
    kept = parts[: len(parts) - node.level]
    return ".".join([*kept, *(node.module or "").split(".")]).rstrip(".")


def _room(module: str) -> str:
    """`relevo.engine.queue` -> `engine`; the package itself -> `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def _module(file: Path, src: Path) -> str:
    return ".".join(file.relative_to(src).with_suffix("").parts).removesuffix(".__init__")


def _part(module: str) -> str:
    """`relevo.engine.producing.flows` -> `producing`; a room itself -> ``."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 else ""


def _may(room: str, target: str) -> bool:
    allowed = MAY_IMPORT[room]
    inner = target.removeprefix(PACKAGE).removeprefix(".") or "__init__"
    return "*" in allowed or any(inner == part or inner.startswith(f"{part}.") for part in {room, *allowed})


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
                yield f"{_module(file, src)}:{node.lineno} sets {ast.unparse(node)}"


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


def _tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("wire/keys.py", "import relevo.engine.queue", "relevo.wire.keys:1 imports relevo.engine.queue"),
        ("wire/keys.py", "from relevo.broker import link", "relevo.wire.keys:1 imports relevo.broker.link"),
        ("wire/keys.py", "from relevo import broker", "relevo.wire.keys:1 imports relevo.broker"),
        ("engine/queue.py", "from relevo import Queue", "relevo.engine.queue:1 imports relevo"),
        ("broker/link.py", "from ..engine import queue", "relevo.broker.link:1 imports relevo.engine.queue"),
        ("broker/link.py", "def f():\n    import relevo.cli", "relevo.broker.link:2 imports relevo.cli"),
        (
            "pipeline/lake.py",
            "from relevo.engine.queue import Queue",
            "relevo.pipeline.lake:1 imports relevo.engine.queue",
        ),
        (
            "pipeline/lake.py",
            "import relevo.work.consume.claims",
            "relevo.pipeline.lake:1 imports relevo.work.consume.claims",
        ),
        ("errors.py", "from relevo.wire import keys", "relevo.errors:1 imports relevo.wire.keys"),
        (
            "wire/keys.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import relevo.work",
            "relevo.wire.keys:3 imports relevo.work",
        ),
        (
            "wire/keys.py",
            "import importlib\nimportlib.import_module('relevo.api.auth')",
            "relevo.wire.keys:2 imports relevo.api.auth",
        ),
        ("attic/old.py", "", "relevo.attic.old is in room 'attic', which has no line in MAY_IMPORT"),
    ],
)
def test_a_forbidden_import_is_found(file: str, text: str, complaint: str, tmp_path: Path) -> None:
    inner = {"engine/queue.py": "", "broker/link.py": "", "wire/keys.py": "", "work/consume/claims.py": ""}
    src = _tree(tmp_path, {f"{PACKAGE}/{name}": body for name, body in (inner | {file: text}).items()})
    assert list(forbidden_imports(src)) == [complaint]


def test_allowed_imports_pass(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from relevo.engine.queue import Queue",
        "engine/queue.py": "import asyncio\nfrom relevo.broker.link import Link\nfrom relevo.engine import loop",
        "engine/service/loop.py": "from relevo import errors",
        "broker/link.py": "from . import resp\nfrom ..wire.keys import QueueKeys",
        "broker/resp.py": "",
        "wire/keys.py": "import redis\nimport relevoid",
        "pipeline/lake.py": "from relevo.work.store import tables",
        "work/store/tables.py": "",
        "cli/main.py": "import relevo\nimport relevo.pipeline.lake",
        "errors.py": "",
    }
    assert list(forbidden_imports(_tree(tmp_path, {f"{PACKAGE}/{name}": body for name, body in files.items()}))) == []


def test_long_files_and_empty_names_are_found(tmp_path: Path) -> None:
    files = {
        "src/relevo/long.py": "x = 1\n" * 501,
        "src/relevo/fits.lua": "-- a\n" * 500,
        "src/relevo/utils.py": "",
        "tests/helpers/test_common.py": "",
        "src/relevo/static/vendor/long.js": "x\n" * 900,
    }
    root = _tree(tmp_path, files)
    assert list(long_files(root)) == ["src/relevo/long.py has 501 lines"]
    assert [line.split(": ")[1].split(" ")[0] for line in empty_names(root)] == [
        "'utils'",
        "'helpers'",
        "'test_common'",
    ]


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
    assert list(script_problems(_tree(tmp_path, files))) == [
        "away.lua does not lie beside c/d.py:1, which loads it",
        "twice.lua has 2 callers: a.py:2, b.py:1",
        "unused.lua has 0 callers: none",
        "gone.lua does not exist, but a.py:3 loads it",
    ]


def test_imports_against_the_walk_and_cycles_are_found(tmp_path: Path) -> None:
    files = {
        "engine/job/job.py": "from relevo.engine.producing.flows import Flow",
        "engine/producing/flows.py": "from relevo.engine.job.job import Job",
        "engine/attic/old.py": "",
        "engine/tasks/task.py": "import relevo.engine.queue",
        "engine/queue.py": "",
    }
    src = _tree(tmp_path, {f"{PACKAGE}/{name}": body for name, body in files.items()})
    assert list(forbidden_inside(src)) == [
        "relevo.engine.attic.old is in part 'attic' of engine, which has no line in INNER",
        "relevo.engine.job.job:1 imports relevo.engine.producing.flows",
    ]
    assert import_cycles(src) == [["relevo.engine.job.job", "relevo.engine.producing.flows"]]


def test_what_is_hung_on_a_part_is_found(tmp_path: Path) -> None:
    files = {
        "engine/runner.py": "class Runner:\n    def __init__(self):\n        self.limiter = None\n        self.paused = False",
        "engine/worker.py": "class Worker:\n    def __init__(self):\n        self.runner = Runner()\n"
        "        self.runner.limiter = 1\n        self.runner.paused, health = True, 2\n        delivery.lost = True",
        "engine/delivery.py": "class Delivery(msgspec.Struct):\n    lost: bool\nclass Keeper:\n    lost = True",
        "engine/health.py": "@dataclass(frozen=True)\nclass Health:\n    paused: bool",
        "broker/tls.py": "context.check_hostname = False",
    }
    src = _tree(tmp_path, {f"{PACKAGE}/{name}": body for name, body in files.items()})
    assert list(hung_attributes(src)) == [
        "relevo.engine.worker:4 sets self.runner.limiter",
        "relevo.engine.worker:5 sets self.runner.paused",
    ]

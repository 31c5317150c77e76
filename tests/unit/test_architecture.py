"""The shape of the tree: which room may import which, and inside a room which part."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "relevo"
STEPS = "relevo/work/store/migrations"
TABLES = "relevo.work.store.tables"
AT_HOME_IN_TABLES = ("relevo.work.", "relevo.agents.", "relevo.pipeline.commands.")
"""Who may know the tables: the room itself, its agents, and the commands that move rows from them into the lake."""

# Data flows one way (engine/queue -> wire -> broker -> Redis …). A room may import itself and what is listed here; a
# dotted entry opens only that part. "*" is for what stands outside the rooms. A new room needs a line, and a reason.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "arguments": {"errors"},  # checks of what callers pass, for whoever takes something from them
    "options": {"arguments", "errors"},  # how options are declared, for whoever has some
    "contract": {"errors"},  # the types of HTTP: the server and the client speak of the same
    "wire": {"options", "arguments", "errors"},
    "broker": {"wire", "arguments", "errors"},
    "engine": {"broker", "wire", "options", "arguments", "errors"},
    "work": {"contract", "engine", "broker", "wire", "arguments", "errors"},
    "agents": {"contract", "work", "engine", "broker", "wire", "errors"},
    "api": {"contract", "agents", "work", "engine", "broker", "wire", "errors"},
    "client": {"contract", "arguments", "errors"},  # talks HTTP: needs nothing of what it talks to
    "console": {"contract", "work", "wire", "errors"},  # pages for people: beside the HTTP API, not on top of it
    # The same URLs as the engine, sockets of its own; a consumer of Spark takes and settles jobs as the engine does, and
    # its sink publishes messages as any client does.
    "pipeline": {"work.store", "broker.address", "engine.batch_consumer", "client", "wire", "errors"},
    "spark": {"pipeline", "errors"},  # what pipeline has for programs, in one import
    "outbox": {"engine", "broker.address", "wire", "arguments", "errors"},  # needs SQLAlchemy, an extra
    "metrics": {"engine", "broker", "wire", "arguments", "errors"},  # listens to the engine, which knows nothing of it
    "logs": {"engine.consuming.job_context", "engine.job.redaction", "errors"},
    "compat": {"engine", "broker", "wire", "arguments", "errors"},  # other libraries' signatures, on top of the engine
    "bench": {"engine", "broker", "wire", "errors"},  # measures the engine, for `relevo bench` and benchmarks/
    # A story told by `relevo demo`, about all three rooms.
    "demo": {"api", "client", "work", "pipeline", "engine", "broker", "wire", "errors"},
    "testing": {"*"},
    "cli": {"*"},
    "__main__": {"*"},
    "__init__": {"*"},
}

# Inside a room: what a part, a package or a module, may import of it beside itself. The engine's parts are a job's walk
# (engine/__init__.py). A room that has no lines here is small, or not split yet.
ENGINE_BASE = {"job", "service", "events", "tracing"}
BRINGING_JOBS = {"schedules", "lanes"}
WORK_BASE = {"caller", "clock", "faults", "pagination", "queue_record"}
MESSAGES = WORK_BASE | {"store", "message", "tenancy"}
API_BASE = {"auth", "faults", "key_uses", "metrics", "params", "problems", "responses", "serving", "settings", "views"}
CLIENT_BASE = {"event_lines", "failures", "request"}
RESOURCES = ("access", "chunks", "erasures", "events", "reviews", "routing", "schemas", "webhooks")
CONSOLE_BASE = {"answer_form", "forms", "rendering"}
PIPELINE_BASE = {"cause", "java", "scratch", "source_columns"}

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
        "dead_letters": MESSAGES | {"broadcast", "reading", "streams"},
        "review": MESSAGES | {"dead_letters", "reading", "schemas", "streams"},
        "routing": MESSAGES | {"broadcast", "dead_letters", "review", "schemas", "streams"},
        "publish": MESSAGES | {"broadcast", "review", "routing", "schemas"},
        "retention": MESSAGES | {"dead_letters", "review", "streams", "webhooks"},
        "audit": MESSAGES | {"reading", "review"},
        "work_queues": {"*"},  # the wiring: it imports all of them, and none imports it
    },
    "api": {
        **{part: set[str]() for part in {*API_BASE, "reference"}},
        "serving": {"metrics", "settings"},
        "auth": {"serving"},
        **dict.fromkeys(("openapi", "request_body"), API_BASE),
        "idempotency": API_BASE | {"request_body"},
        "routes": API_BASE | {"openapi", "request_body", "idempotency", "reference"},
        "fast_operations": API_BASE | {"openapi"},
        "fast_routes": API_BASE | {"fast_operations", "request_body"},
        "app": API_BASE | {"openapi", "request_body", "routes", "fast_operations", "fast_routes"},
        "protocol": {"fast_routes", "request_body"},
        "server": {"fast_routes", "protocol"},
        "service": {"*"},
    },
    # A resource is for asyncio and without it; the files without it are made from the others.
    "client": {
        **{part: set[str]() for part in CLIENT_BASE},
        **{part: {"request"} for part in ("async_sender", "sync_sender", "settling")},
        **{f"async_{noun}": CLIENT_BASE | {"async_sender"} for noun in RESOURCES},
        **{f"sync_{noun}": CLIENT_BASE | {"sync_sender"} for noun in RESOURCES},
        "consumer": CLIENT_BASE | {"settling"},
        "async_client": CLIENT_BASE | {"consumer", "settling", *(f"async_{noun}" for noun in ("sender", *RESOURCES))},
        "sync_client": {"*"},
    },
    "console": {
        **{part: set[str]() for part in CONSOLE_BASE},
        "console": {"rendering"},
        "login": CONSOLE_BASE | {"console"},
        **dict.fromkeys(("inbox", "review"), CONSOLE_BASE | {"console", "login"}),
        "dead_letters": CONSOLE_BASE | {"console", "login", "inbox"},
        "app": {"*"},
    },
    "pipeline": {
        **{part: set[str]() for part in PIPELINE_BASE},
        "start": PIPELINE_BASE,
        "lake": PIPELINE_BASE,
        "report": PIPELINE_BASE | {"lake"},
        "connector": PIPELINE_BASE | {"lake"},
        "watch": PIPELINE_BASE | {"lake", "connector"},
        **dict.fromkeys(("session", "worker_daemon"), PIPELINE_BASE | {"start", "connector"}),
        "commands": {"*"},
    },
    # What all commands share knows no command; a kind of command knows others only where it is made of them.
    "cli": {
        "shell": set(),
        **{part: {"shell"} for part in ("bench", "demo", "database", "queues", "workers")},
        **{part: {"shell", "database"} for part in ("pipeline", "work")},
        # `up` serves work queues, and `serve` runs under the supervisor.
        "servers": {"shell", "database", "work", "workers"},
        "group_options": {"shell", "work"},
        "commands": {"*"},
    },
}


def test_rooms_import_only_what_they_may() -> None:
    assert list(forbidden_imports(ROOT / "src")) == []


def test_parts_of_a_room_import_only_what_they_may() -> None:
    assert list(forbidden_inside(ROOT / "src")) == []


def test_the_order_inside_a_room_is_an_order_of_parts_that_exist() -> None:
    for room, parts in INNER.items():
        folder = ROOT / "src" / PACKAGE / room
        assert [part for part in parts if not (folder / part).is_dir() and not (folder / f"{part}.py").exists()] == []
        TopologicalSorter(
            {part: set(parts) - {part} if "*" in below else below for part, below in parts.items()}
        ).prepare()


def test_no_modules_import_one_another() -> None:
    """Imports for types only count: a reader has to know both files all the same."""
    assert import_cycles(ROOT / "src") == []


def test_steps_of_the_database_import_nothing_that_goes_on() -> None:
    assert list(live_code_in_steps(ROOT / "src")) == []


def test_nobody_outside_the_store_reads_its_tables() -> None:
    assert list(readers_of_tables(ROOT / "src")) == []


def test_a_queue_loads_nothing_of_workers() -> None:
    listed = (
        "import sys, relevo; relevo.Queue; print(*(name for name in sys.modules if name.startswith('relevo.engine.')))"
    )
    loaded = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True).stdout.split()
    assert "relevo.engine.queue" in loaded
    assert [name for name in loaded if name.split(".")[2] in {"consuming", "settling", "duties", "worker"}] == []


# --- the checks ---------------------------------------------------------------------------------------------------


def forbidden_imports(src: Path) -> Iterator[str]:
    """Imports that break MAY_IMPORT, as sentences."""
    for file in sorted((src / PACKAGE).rglob("*.py")):
        module = module_of(file, src)
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
            module = module_of(file, src)
            part = _part(module)
            if part and part not in parts:
                yield f"{module} is in part {part!r} of {room}, which has no line in INNER"
                continue
            for line, target in imports_of(file, module, src):
                other = _part(target)
                inside = target.startswith(f"{PACKAGE}.{room}.") and other != part
                if part and inside and "*" not in parts[part] and other not in parts[part]:
                    yield f"{module}:{line} imports {target}"


def live_code_in_steps(src: Path) -> Iterator[str]:
    """What migrations import of ours outside their folder, as sentences: a step must do tomorrow what it does today."""
    for file in sorted((src / STEPS).rglob("*.py")):
        module = module_of(file, src)
        for line, target in imports_of(file, module, src):
            if not target.startswith(STEPS.replace("/", ".")):
                yield f"{module}:{line} imports {target}"


def readers_of_tables(src: Path) -> Iterator[str]:
    """Who else imports the tables of work queues, or names one of them, as sentences. The views are for all others."""
    for file in sorted((src / PACKAGE).rglob("*.py")):
        module = module_of(file, src)
        if module.startswith(AT_HOME_IN_TABLES):
            continue
        for line, target in imports_of(file, module, src):
            if target.startswith(TABLES):
                yield f"{module}:{line} imports {target}"
        if "relevo_store_" in file.read_text():
            yield f"{module} names a table"


def import_cycles(src: Path) -> list[list[str]]:
    """Groups of modules of which each imports the others, over however many steps."""
    files = {module_of(file, src): file for file in sorted((src / PACKAGE).rglob("*.py"))}
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


@cache
def imports_of(file: Path, module: str, src: Path) -> list[tuple[int, str]]:
    """Line and full name of everything of ours that a file imports, also for types only and inside functions."""
    return [
        (node.lineno, name)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.stmt | ast.expr)
        for name in _names_imported(node, module, src)
        if name == PACKAGE or name.startswith(f"{PACKAGE}.")
    ]


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


def module_of(file: Path, src: Path) -> str:
    return ".".join(file.relative_to(src).with_suffix("").parts).removesuffix(".__init__")


def _part(module: str) -> str:
    """`relevo.engine.producing.flows` -> `producing`; a room itself -> ``."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 else ""


def _may(room: str, target: str) -> bool:
    allowed = MAY_IMPORT[room]
    inner = target.removeprefix(PACKAGE).removeprefix(".") or "__init__"
    return "*" in allowed or any(inner == part or inner.startswith(f"{part}.") for part in {room, *allowed})


# --- the checks of the checks -------------------------------------------------------------------------------------


def tree_of(root: Path, files: dict[str, str]) -> Path:
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
    src = tree_of(tmp_path, {f"{PACKAGE}/{name}": body for name, body in (inner | {file: text}).items()})
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
    assert list(forbidden_imports(tree_of(tmp_path, {f"{PACKAGE}/{name}": body for name, body in files.items()}))) == []


def test_imports_against_the_walk_and_cycles_are_found(tmp_path: Path) -> None:
    files = {
        "engine/job/job.py": "from relevo.engine.producing.flows import Flow",
        "engine/producing/flows.py": "from relevo.engine.job.job import Job",
        "engine/attic/old.py": "",
        "engine/tasks/task.py": "import relevo.engine.queue",
        "engine/queue.py": "",
    }
    src = tree_of(tmp_path, {f"{PACKAGE}/{name}": body for name, body in files.items()})
    assert list(forbidden_inside(src)) == [
        "relevo.engine.attic.old is in part 'attic' of engine, which has no line in INNER",
        "relevo.engine.job.job:1 imports relevo.engine.producing.flows",
    ]
    assert import_cycles(src) == [["relevo.engine.job.job", "relevo.engine.producing.flows"]]


def test_a_reader_of_tables_is_found(tmp_path: Path) -> None:
    files = {
        "work/store/tables/message.py": "",
        "agents/relay.py": "from relevo.work.store.tables.message import messages",
        "pipeline/connector/source.py": "from relevo.work.store.tables import message",
        "pipeline/report.py": "SQL = 'SELECT * FROM relevo_store_messages'",
    }
    src = tree_of(tmp_path, {f"{PACKAGE}/{name}": body for name, body in files.items()})
    assert list(readers_of_tables(src)) == [
        "relevo.pipeline.connector.source:1 imports relevo.work.store.tables.message",
        "relevo.pipeline.report names a table",
    ]


def test_a_step_of_the_database_that_imports_what_goes_on_is_found(tmp_path: Path) -> None:
    files = {
        "versions/0001_tables.py": "import sqlalchemy\nfrom relevo.work.store.migrations.columns import ULID",
        "versions/0002_links.py": "from relevo.wire.ids import IdMint",
        "columns.py": "",
    }
    src = tree_of(tmp_path, {f"{STEPS}/{name}": body for name, body in files.items()})
    assert list(live_code_in_steps(src)) == [
        "relevo.work.store.migrations.versions.0002_links:1 imports relevo.wire.ids"
    ]

"""Fixtures every test may use: shared servers, a queue name of its own, a raw client, and the key leak checker."""

import os
import uuid
from collections.abc import AsyncGenerator, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.clock import Clock
from tests.pace import limit
from tests.servers.binary import ServerUnavailable
from tests.servers.cluster import RedisCluster
from tests.servers.database import DatabaseServer
from tests.servers.leaks import KeyLeaks
from tests.servers.mariadb import MariaDbServer
from tests.servers.pool import ServerPool
from tests.servers.postgres import PostgresServer
from tests.servers.sentinel import Sentinel
from tests.servers.server import Client, EmbeddedValkey, Redis7, Redis86, Server
from tests.servers.stores import STORES, store_url
from tests.servers.tls import TlsRedis

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

pytest_plugins = ("tests.harness.plugin",)

S = TypeVar("S", bound=Server)
D = TypeVar("D", bound=DatabaseServer)

# How long a draw takes says something about the machine and its other tests, nothing about us.
settings.register_profile("relevo", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("relevo")

# Programs that tests start write into pipes as they do for users, whatever the shell says that runs the tests.
os.environ.pop("PYTHONUNBUFFERED", None)

_POOL = pytest.StashKey[ServerPool]()
_DATABASES = pytest.StashKey[dict[str, DatabaseServer]]()
_BROWSER_STARTS_MS, _PAGE_SHOWS_MS = 60_000, 10_000
_NOT_HAD = " could not be had: "
_SERVER_FIXTURES = ("server", "redis86", "redis7", "valkey", "cluster", "tls_redis", "sentinel")


class Launch(Protocol):
    """Starts a server of the test's own: `launch(Redis86, appendonly=True)`."""

    def __call__(self, kind: type[S], *, appendonly: bool = False, settings: Mapping[str, str] | None = None) -> S: ...


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_POOL] = ServerPool()
    config.stash[_DATABASES] = {}


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_POOL].close()
    for database in config.stash[_DATABASES].values():
        database.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A server that could not be had is said in red: a green run without it has proved less than it seems."""
    missing: dict[tuple[str, str], int] = {}
    # From the reports, not from this process: with several workers the tests ran elsewhere.
    for report in terminalreporter.stats.get("skipped", []):
        where: Any = report.longrepr
        said = str(where[2] if isinstance(where, tuple) else where)  # pyright: ignore[reportUnknownArgumentType]
        name, without, reason = said.removeprefix("Skipped: ").partition(_NOT_HAD)
        if without:
            missing[name, reason] = missing.get((name, reason), 0) + 1
    for (name, reason), count in missing.items():
        title = f"NOT RUN on {name}: {count} {'test' if count == 1 else 'tests'}"
        terminalreporter.write_sep("=", title, red=True, bold=True)
        terminalreporter.write_line(f"{name}{_NOT_HAD}{reason}", red=True)


@pytest.fixture
def key_leaks() -> KeyLeaks:
    """The leak checker of this test; `key_leaks.allow("scratch:*")` exempts keys that a test makes for a purpose."""
    return KeyLeaks()


@pytest.fixture(
    params=[Redis86, Redis7, EmbeddedValkey, RedisCluster],
    ids=lambda kind: kind.name,  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]
)
def server(request: pytest.FixtureRequest, key_leaks: KeyLeaks) -> Generator[Server]:
    """Every kind of server in turn; shared by the run, empty at the start of the test."""
    yield from _shared(request, request.param, key_leaks)


@pytest.fixture
def redis86(request: pytest.FixtureRequest, key_leaks: KeyLeaks) -> Generator[Server]:
    yield from _shared(request, Redis86, key_leaks)


@pytest.fixture
def redis7(request: pytest.FixtureRequest, key_leaks: KeyLeaks) -> Generator[Server]:
    yield from _shared(request, Redis7, key_leaks)


@pytest.fixture
def valkey(request: pytest.FixtureRequest, key_leaks: KeyLeaks) -> Generator[Server]:
    yield from _shared(request, EmbeddedValkey, key_leaks)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, key_leaks: KeyLeaks) -> Generator[RedisCluster]:
    yield from _shared(request, RedisCluster, key_leaks)


@pytest.fixture
def tls_redis(request: pytest.FixtureRequest, key_leaks: KeyLeaks) -> Generator[TlsRedis]:
    yield from _shared(request, TlsRedis, key_leaks)


@pytest.fixture
def sentinel(request: pytest.FixtureRequest, key_leaks: KeyLeaks) -> Generator[Sentinel]:
    yield from _shared(request, Sentinel, key_leaks)


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> PostgresServer:
    """The run's PostgreSQL, started when a test first asks for it; tests share its one database."""
    return _shared_database(request, PostgresServer)


@pytest.fixture
def mariadb(request: pytest.FixtureRequest) -> MariaDbServer:
    """The run's MariaDB, started when a test first asks for it; tests share its one database, or `create` their own."""
    return _shared_database(request, MariaDbServer)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    """Each database of work queues in turn."""
    return request.param


@pytest.fixture
def database_url(request: pytest.FixtureRequest, store: str, tmp_path: Path) -> str:
    """An address of that database; a PostgreSQL and a MariaDB are the run's, and may hold rows of other tests."""
    return store_url(request, store, tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def browser() -> Generator["Browser"]:
    """A real Chromium for the tests of a module that look at pages."""
    from playwright.sync_api import expect, sync_playwright

    from tests.servers.chromium import ARGUMENTS, provide_chromium

    program = provide_chromium()
    if isinstance(program, ServerUnavailable):
        pytest.skip(f"chromium{_NOT_HAD}{program}")  # said in red at the end of the run
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=program, args=list(ARGUMENTS), timeout=limit(_BROWSER_STARTS_MS)
        )
        expect.set_options(timeout=limit(_PAGE_SHOWS_MS))
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Generator["SparkSession"]:
    """One Spark session for the whole test process: it takes longer to start than all its tests to run. One process runs all
    tests that use it (`tests/harness/turns.py`)."""
    from relevo.pipeline.session import session

    folder = tmp_path_factory.mktemp("spark")
    (folder / "events").mkdir()
    spark = session(
        "local[2]",
        log=folder / "spark.log",
        settings={
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": str(folder / "events"),
        },
    )
    yield spark
    spark.stop()


@pytest.fixture
def launch(request: pytest.FixtureRequest, key_leaks: KeyLeaks) -> Generator[Launch]:
    """Starts servers for this test alone, to be killed, paused and restarted at will."""
    launched: list[Server] = []

    def start(kind: type[S], *, appendonly: bool = False, settings: Mapping[str, str] | None = None) -> S:
        try:
            server = kind(appendonly=appendonly, settings=settings)
        except ServerUnavailable as error:
            _not_run(request, kind, error)
        launched.append(server)
        server.start()
        return server

    yield start
    try:
        for server in launched:
            key_leaks.check(server)
    finally:
        for server in launched:
            server.close()


@pytest.fixture
def queue_name() -> str:
    """A name no other test uses."""
    return f"q-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def raw(request: pytest.FixtureRequest) -> AsyncGenerator[Client]:
    """A redis-py client on the server this test uses; a cluster client on the cluster. Replies are bytes."""
    names = [name for name in _SERVER_FIXTURES if name in request.fixturenames]
    if not names:
        pytest.fail(f"`raw` needs to know the server: ask for one of {', '.join(_SERVER_FIXTURES)} as well")
    server: Server = request.getfixturevalue(names[0])
    client = server.client()
    yield client
    await client.aclose()


def _shared(request: pytest.FixtureRequest, kind: type[S], key_leaks: KeyLeaks) -> Generator[S]:
    try:
        server = request.config.stash[_POOL].get(kind)
    except ServerUnavailable as error:
        _not_run(request, kind, error)
    yield server
    key_leaks.check(server)


def _shared_database(request: pytest.FixtureRequest, kind: type[D]) -> D:
    stash = request.config.stash
    if kind.name not in stash[_DATABASES]:
        if reason := stash[_POOL].unavailable.get(kind.name):
            _not_run(request, kind, ServerUnavailable(reason))
        try:
            stash[_DATABASES][kind.name] = kind()
        except ServerUnavailable as error:
            _not_run(request, kind, error)
    database = stash[_DATABASES][kind.name]
    assert isinstance(database, kind)
    return database


def _not_run(request: pytest.FixtureRequest, kind: type[Server | DatabaseServer], error: ServerUnavailable) -> NoReturn:
    """Skips the test, and has the end of the run say in red that it did not run."""
    pool = request.config.stash[_POOL]
    pool.unavailable.setdefault(kind.name, str(error))
    pytest.skip(f"{kind.name}{_NOT_HAD}{error}")

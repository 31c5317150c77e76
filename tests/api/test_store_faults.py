"""A database that is killed, demoted or full: 503 to every request, one line in the log, and clients that wait it out."""

import asyncio
import resource
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from relevo.client import AsyncClient
from tests.pace import limit
from tests.patience import until
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer
from tests.support.serve_process import ServeProcess, sqlite_in

DATABASES = {"postgres": PostgresServer, "mariadb": MariaDbServer}
AWAY, BACK = "the database does not answer", "the database answers again"


@pytest.fixture(params=["postgres", pytest.param("mariadb", marks=pytest.mark.whole)])
def database(request: pytest.FixtureRequest) -> Generator[PostgresServer | MariaDbServer]:
    """One of the test's own: the run's is everybody's."""
    server = DATABASES[request.param]()
    yield server
    server.close()


@pytest.fixture
def serve(database: PostgresServer | MariaDbServer) -> Generator[ServeProcess]:
    is_postgres = isinstance(database, PostgresServer)
    started = ServeProcess(
        f"postgresql://postgres@127.0.0.1:{database.port}/postgres" if is_postgres else database.user_url()
    )
    yield started
    started.close()


async def test_a_demoted_or_killed_database_is_503_one_line_each_and_waited_out(
    database: PostgresServer | MariaDbServer, serve: ServeProcess
) -> None:
    async with AsyncClient(serve.url, key=serve.key) as client:
        await client.create_scope("s")
        await client.create_queue("s", "q")
        await client.publish("s", "q", {"n": 0})

        await asyncio.to_thread(database.set_read_only, True)
        await until(lambda: _refused(serve))
        assert await _answers(serve, reads=False) == {(503, "STORE_UNAVAILABLE")}
        waiting = [asyncio.create_task(client.publish("s", "q", {"n": n})) for n in range(1, 6)]
        await asyncio.to_thread(database.set_read_only, False)
        await asyncio.gather(*waiting)
        await _settled(serve, outages=1)

        await asyncio.to_thread(database.kill)
        assert await _answers(serve, reads=True) == {(503, "STORE_UNAVAILABLE")}
        waiting = [asyncio.create_task(client.publish("s", "q", {"n": n})) for n in range(6, 11)]
        claiming = asyncio.create_task(client.claim("s", "q", batch_size=6))
        await asyncio.to_thread(database.start_again)
        await asyncio.gather(*waiting)
        assert len(await claiming) == 6
        await _settled(serve, outages=2)
    code, said = await asyncio.to_thread(serve.end)
    assert code == 0
    assert "Traceback" not in said, said


async def test_a_full_disk_is_503_one_line_and_waited_out(tmp_path: Path) -> None:
    serve = ServeProcess(sqlite_in(tmp_path))
    try:
        async with AsyncClient(serve.url, key=serve.key) as client:
            await client.create_scope("s")
            await client.create_queue("s", "q")
            before = resource.prlimit(serve.child.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(serve.child.pid, resource.RLIMIT_FSIZE, (1, before[1]))  # no file may have a byte more
            assert await _answers(serve, reads=False) == {(503, "STORE_UNAVAILABLE")}
            assert await _refused(serve)
            waiting = asyncio.create_task(client.publish("s", "q", {"n": 0}))
            resource.prlimit(serve.child.pid, resource.RLIMIT_FSIZE, before)
            await waiting
            await _settled(serve, outages=1)
        code, said = await asyncio.to_thread(serve.end)
        assert code == 0
        assert "Traceback" not in said, said
    finally:
        serve.close()


async def _answers(serve: ServeProcess, *, reads: bool) -> set[tuple[int, str]]:
    """Status and code of many requests at once, by fast routes and by others; each says when to come again."""
    queue = "/v1/scopes/s/queues/q"
    requests = [
        ("POST", f"{queue}/messages", {"body": 1}),
        ("POST", f"{queue}/messages/batch", {"items": [{"body": 1}, {"body": 2}]}),
        ("PATCH", queue, {"description": "changed"}),
        ("POST", "/v1/scopes", {"slug": "another"}),
        *([("GET", "/v1/scopes/s/messages", None), ("GET", "/v1/scopes", None)] if reads else []),
    ]
    found: Counter[tuple[int, str]] = Counter()
    async with httpx.AsyncClient(
        base_url=serve.url, headers={"authorization": f"Bearer {serve.key}"}, timeout=limit(40)
    ) as http:
        for response in await asyncio.gather(
            *(http.request(method, path, json=body) for method, path, body in requests * 5)
        ):
            found[response.status_code, response.json().get("code", "")] += 1
            assert int(response.headers.get("retry-after", "0")) == response.json().get("retry_after_s"), (
                response.text + serve.child.err
            )
    return set(found)


async def _refused(serve: ServeProcess) -> bool:
    async with httpx.AsyncClient(base_url=serve.url) as http:
        return (await http.get("/readyz")).status_code == 503


async def _settled(serve: ServeProcess, *, outages: int) -> None:
    """The log has told of the end of the outage, and of nothing else."""

    async def told() -> bool:
        async with httpx.AsyncClient(base_url=serve.url) as http:
            ready = (await http.get("/readyz")).status_code == 200
        return ready and serve.child.err.count(BACK) == outages

    await until(told)
    assert serve.child.err.count(AWAY) == outages, serve.child.err

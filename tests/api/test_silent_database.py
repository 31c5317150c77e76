"""A database behind a network that falls silent: nothing is refused, nothing is reset, nothing comes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator

import httpx
import pytest
from sqlalchemy import text

from relevo.client import AsyncClient
from relevo.errors import StoreUnavailable
from relevo.work.store import schema, session_timeouts
from relevo.work.store.database import Database
from relevo.work.store.mariadb.driver import MariaDbDriver
from relevo.work.store.postgresql.driver import PostgresDriver
from tests.pace import limit
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy
from tests.support.serve_process import ServeProcess

DATABASES = {"postgres": PostgresServer, "mariadb": MariaDbServer}


@pytest.fixture(params=["postgres", "mariadb"], scope="module")
def server(request: pytest.FixtureRequest) -> Generator[PostgresServer | MariaDbServer]:
    started = DATABASES[request.param]()
    yield started
    started.close()


@pytest.fixture
async def proxy(server: PostgresServer | MariaDbServer) -> AsyncGenerator[Proxy]:
    async with Proxy(f"tcp://127.0.0.1:{server.port}") as started:
        yield started


def _url(server: PostgresServer | MariaDbServer, proxy: Proxy) -> str:
    port = proxy.url.rpartition(":")[2]
    if isinstance(server, PostgresServer):
        return f"postgresql://postgres@127.0.0.1:{port}/postgres"
    return server.user_url().replace(f":{server.port}/", f":{port}/")


async def test_silence_ends_every_call_and_new_connections_are_made_after_it(
    server: PostgresServer | MariaDbServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANSWER_S", "CONNECT_S", "CLOSE_S"):
        monkeypatch.setattr(session_timeouts, name, 1.0)
    database = Database(_url(server, proxy))
    driver = PostgresDriver(database) if isinstance(server, PostgresServer) else MariaDbDriver(database)

    async def fast() -> None:
        await driver.transact(lambda session: session.policies([1]))

    async def slow() -> None:
        async with database.connect() as connection:
            await connection.execute(text("SELECT 1"))

    async def writing() -> None:
        async with database.begin() as connection:
            await connection.execute(text("SELECT 1"))

    await driver.open()
    await schema.upgrade(database)
    await fast()
    await slow()
    proxy.hold()
    async with asyncio.timeout(limit(20)):
        ends = await asyncio.gather(fast(), slow(), writing(), fast(), slow(), return_exceptions=True)
        assert [type(each) for each in ends] == [StoreUnavailable] * 5, ends
        ends = await asyncio.gather(fast(), slow(), return_exceptions=True)  # and nobody can connect
        assert [type(each) for each in ends] == [StoreUnavailable] * 2, ends
        proxy.release()
        await fast()
        await slow()
        await writing()
        proxy.hold()
        await driver.close()
        await database.close()


@pytest.mark.whole
@pytest.mark.timeout(240)
async def test_a_node_answers_503_through_a_silence_and_ends_within_its_shutdown_time(
    server: PostgresServer | MariaDbServer, proxy: Proxy
) -> None:
    serve = await asyncio.to_thread(ServeProcess, _url(server, proxy))
    try:
        async with AsyncClient(serve.url, key=serve.key) as client:
            await client.create_scope("s")
            await client.create_queue("s", "q")
            await client.publish("s", "q", {"n": 0})
        proxy.hold()
        headers = {"authorization": f"Bearer {serve.key}"}
        async with httpx.AsyncClient(base_url=serve.url, headers=headers, timeout=limit(90)) as http:
            publish = ("POST", "/v1/scopes/s/queues/q/messages")
            asked = [http.request(*publish, json={"body": 1}), http.get("/v1/scopes"), http.get("/readyz")]
            answers = await asyncio.gather(*asked)
            assert [each.status_code for each in answers] == [503] * 3
            waiting = asyncio.create_task(http.request(*publish, json={"body": 2}))
            began = time.monotonic()
            code, said = await asyncio.to_thread(serve.end)
            assert code == 0, said
            assert time.monotonic() - began < limit(40)  # 20 s for requests, 15 s for the rest
            await asyncio.gather(waiting, return_exceptions=True)
    finally:
        serve.close()

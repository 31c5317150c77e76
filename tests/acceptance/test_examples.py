"""Every example runs, and does what it says."""

import importlib.util
import os
import sys
from types import ModuleType

import httpx
import pytest

from tests.servers.child import Child
from tests.servers.server import Server
from tests.support.page import ROOT

EXAMPLES = ROOT / "examples"


def run(name: str, server: Server) -> list[str]:
    """What an example prints, line by line."""
    environment = {**os.environ, "RELEVO_REDIS_URL": server.url}
    done = Child.run(sys.executable, "-W", "error", EXAMPLES / name, env=environment)
    assert done.code == 0, done.out + done.err
    assert done.err == ""
    return done.out.splitlines()


def load(name: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An example as a module of its own, on the test's server."""
    monkeypatch.setenv("RELEVO_REDIS_URL", server.url)
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plain_asyncio(server: Server) -> None:
    assert run("plain_asyncio.py", server) == ["8 words", "AND THIS ONE WAITED"]


async def test_fastapi_enqueues_and_shows_the_result(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    app = load("fastapi_app.py", server, monkeypatch).app
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://app") as client,
    ):
        ordered = await client.post("/reports", params={"customer": 17})
        assert (ordered.status_code, ordered.json()) == (202, {"id": "report-17"})
        assert (await client.post("/reports", params={"customer": 17})).json() == {"id": "report-17"}
        wanted = {"state": "completed", "report": {"customer": 17, "orders": 51}}
        assert (await client.get("/reports/report-17", params={"wait_s": 20})).json() == wanted
        assert (await client.get("/reports/report-17")).json() == wanted
        assert (await client.get("/reports/report-18")).status_code == 404
        assert (await client.get("/reports/report-18", params={"wait_s": 0.05})).status_code == 504


def test_django_sends_what_was_committed_and_nothing_else(server: Server) -> None:
    assert run("django_outbox.py", server) == [
        "Bob has not paid",
        "in the outbox: 2",
        "relayed 2",
        "in the outbox: 0",
        "order 1: confirmed to Ada",
        "order 2: confirmed to Eve",
    ]


def test_every_example_has_a_test_and_a_line_in_the_readme() -> None:
    programs = sorted(path.name for path in EXAMPLES.glob("*.py"))
    tests = "".join(
        (ROOT / "tests/acceptance" / f"test_{each}.py").read_text() for each in ("examples", "spark_example")
    )
    readme = (EXAMPLES / "README.md").read_text()
    assert programs == ["django_outbox.py", "fastapi_app.py", "plain_asyncio.py", "score_queue.py"]
    assert [name for name in programs if f'"{name}"' not in tests or f"({name})" not in readme] == []

"""The fixtures, as a project of its own uses them."""

import sys
from pathlib import Path

import pytest

from relevo import Job, Queue
from relevo.testing.plugin import StartWorker
from tests.servers.child import Child

SUITE = """
import pytest
from relevo.testing import assert_enqueued, drain

pytestmark = pytest.mark.{mark}

async def handler(job):
    return job.data

async def test_a_queue(relevo_queue, relevo_clock):
    await relevo_queue.add("n", 1, delay_ms=60_000)
    await relevo_clock.turn(60)
    await assert_enqueued(relevo_queue, "n", count=1)
    assert len(await drain(relevo_queue, handler)) == 1

async def test_another_queue_is_empty_and_a_worker_runs(relevo_server, relevo_queue, relevo_worker):
    await assert_enqueued(relevo_queue, count=0)
    await relevo_worker(handler, store_results=True)
    job = await relevo_queue.add("n", 7)
    assert await job.wait_for_result() == 7
"""
ASYNCIO = ("-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = '\n@pytest.fixture\ndef anyio_backend():\n    return "asyncio"\n'


async def test_a_worker_runs_until_the_test_ends(relevo_queue: Queue, relevo_worker: StartWorker) -> None:
    async def double(job: Job) -> int:
        return job.data * 2

    worker = await relevo_worker(double, store_results=True)
    job = await relevo_queue.add("n", 21)
    assert await job.wait_for_result() == 42
    assert worker.is_running


@pytest.mark.parametrize("way", ["auto", "strict"])
def test_a_project_uses_them_with_pytest_asyncio(tmp_path: Path, way: str) -> None:
    said = run_suite(tmp_path, SUITE.format(mark="asyncio"), "-p", "no:anyio", f"--asyncio-mode={way}", *ASYNCIO)
    assert "2 passed" in said


def test_a_project_uses_them_with_anyio(tmp_path: Path) -> None:
    # As if pytest-asyncio were not installed: a finder in front says that it is not.
    hidden = "import sys\nimport importlib.util as u\nfind = u.find_spec\n"
    hidden += "u.find_spec = lambda name, *a: None if name == 'pytest_asyncio' else find(name, *a)\n"
    said = run_suite(tmp_path, SUITE.format(mark="anyio") + ANYIO, "-p", "no:asyncio", before=hidden)
    assert "2 passed" in said


def test_a_run_without_them_does_not_import_relevo(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import sys\ndef test_it():\n    assert 'relevo' not in sys.modules\n")
    assert "1 passed" in run_pytest(tmp_path, *ASYNCIO)


def run_suite(folder: Path, suite: str, *arguments: str, before: str = "") -> str:
    (folder / "conftest.py").write_text(before + 'pytest_plugins = ["relevo.testing.plugin"]\n')
    (folder / "test_it.py").write_text(suite)
    return run_pytest(folder, *arguments)


def run_pytest(folder: Path, *arguments: str) -> str:
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:valkey", "-p", "no:cacheprovider", "-W", "error")
    done = Child.run(*command, *arguments, folder, cwd=folder)
    assert done.code == 0, done.out + done.err
    return done.out

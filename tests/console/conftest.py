"""Fixtures of the console's tests: one served process and one browser for a module, a scope for each test."""

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser

from tests.console.desk import ConsoleDesk, Visitors
from tests.support.serve_process import ServeProcess, sqlite_in


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServeProcess]:
    started = ServeProcess(sqlite_in(tmp_path_factory.mktemp("console")))
    yield started
    started.close()


@pytest.fixture(scope="module")
def visitors(browser: Browser) -> Visitors:
    return Visitors(browser)


@pytest.fixture
def desk(serve: ServeProcess, visitors: Visitors) -> Generator[ConsoleDesk]:
    opened = ConsoleDesk(serve, visitors)
    yield opened
    opened.close()

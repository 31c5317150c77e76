"""The databases' clocks: relays of all places agree on them, also when clocks are changed."""

import time
from collections.abc import Generator

import pytest
from sqlalchemy import create_engine, select, text

from relevo.outbox.clock import now_ms
from tests.outbox.database import Database
from tests.servers.mariadb import MariaDbServer

# Central Europe, spelt so that no zone files are needed.
MADRID = "CET-1CEST,M3.5.0,M10.5.0/3"
SECOND_PASS_MS = 1_698_543_000_000
"""2023-10-29, half past two by the wall for the second time."""


@pytest.fixture
def madrid_mariadb(mariadb: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> Generator[MariaDbServer]:
    """A MariaDB whose machine is in Madrid; asked for after the shared one, so that a missing one is said in one way."""
    monkeypatch.setenv("TZ", MADRID)
    server = MariaDbServer(mariadb.programs)
    yield server
    server.close()


async def test_the_clock_is_that_of_the_epoch(database: Database) -> None:
    ((told,),) = await database.execute(select(now_ms()))
    assert told == pytest.approx(time.time() * 1000, abs=20_000)


def test_the_hour_that_comes_twice_is_told_apart_by_mariadb(madrid_mariadb: MariaDbServer) -> None:
    engine = create_engine(madrid_mariadb.url("pymysql"))
    told: list[int] = []
    with engine.connect() as connection:
        for at in (SECOND_PASS_MS - 3_600_000, SECOND_PASS_MS):
            connection.execute(text(f"SET timestamp = {at // 1000}"))
            told.append(connection.execute(select(now_ms())).scalar_one())
    engine.dispose()
    assert told == [SECOND_PASS_MS - 3_600_000, SECOND_PASS_MS]

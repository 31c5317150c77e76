"""The databases themselves: what tests of the outbox and of the work queues take for granted."""

import pwd
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.servers.binary import ServerUnavailable
from tests.servers.database import DatabaseServer
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer
from tests.servers.programs import provide_database

KINDS = pytest.mark.parametrize(
    ("kind", "driver"), [(PostgresServer, "psycopg"), (MariaDbServer, "pymysql")], ids=["postgres", "mariadb"]
)


def version_of(server: DatabaseServer, driver: str) -> str:
    engine = create_engine(server.url(driver))
    with engine.connect() as connection:
        version = str(connection.execute(text("SELECT version()")).scalar_one())
    engine.dispose()
    return version


def test_both_answer_with_the_version_of_their_programs(postgres: PostgresServer, mariadb: MariaDbServer) -> None:
    assert postgres.programs.version in version_of(postgres, "psycopg")
    assert mariadb.programs.version in version_of(mariadb, "pymysql")


@KINDS
@pytest.mark.scale  # the first time some 100 MB are downloaded
@pytest.mark.timeout(600)
def test_a_machine_without_a_database_gets_it_from_debian_and_runs_it(
    kind: type[PostgresServer | MariaDbServer], driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = pwd.getpwnam

    def without_the_packages_user(name: str) -> pwd.struct_passwd:
        if name == kind.name:
            raise KeyError(name)
        return known(name)

    monkeypatch.setattr(pwd, "getpwnam", without_the_packages_user)
    programs = provide_database(kind.kind, machine=tmp_path)
    if isinstance(programs, ServerUnavailable):
        pytest.skip(f"{kind.name} could not be had: {programs}")
    assert not programs.own
    server = kind(programs)
    try:
        assert programs.version in version_of(server, driver)
    finally:
        server.close()

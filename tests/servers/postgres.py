"""PostgreSQL for tests: a server of its own in a temporary folder."""

import signal

import psycopg
from psycopg import sql

from tests.servers.database import DatabaseServer
from tests.servers.programs import POSTGRES

LANGUAGE = "et-EE"
"""All its databases order text as Estonian does: Z before T. What relies on the order of bytes has to say so."""


class PostgresServer(DatabaseServer):
    """One PostgreSQL on loopback, without passwords; ended with `close`."""

    name = "postgres"
    kind = POSTGRES
    ends_with = signal.SIGINT  # fast shutdown: does not wait for clients

    def url(self, driver: str, database: str = "postgres") -> str:
        """SQLAlchemy's address of it, for `psycopg` or `asyncpg`."""
        return f"postgresql+{driver}://postgres@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> None:
        """Makes one more database."""
        address = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))

    def set_read_only(self, read_only: bool) -> None:
        """As one that was demoted: new transactions may only read."""
        options = "-c default_transaction_read_only=off"
        address = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        with psycopg.connect(address, autocommit=True, options=options) as connection:
            setting = sql.Literal("on" if read_only else "off")
            connection.execute(sql.SQL("ALTER SYSTEM SET default_transaction_read_only = {}").format(setting))
            connection.execute("SELECT pg_reload_conf()")

    def refuses_root(self) -> bool:
        return True

    def initialiser(self) -> list[str]:
        initdb = str(self.programs.paths["initdb"])
        return [
            *(initdb, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "-D", str(self.data)),
            *("--no-locale", "--locale-provider=icu", f"--icu-locale={LANGUAGE}"),
        ]

    def command(self) -> list[str]:
        return [
            *(str(self.programs.paths["postgres"]), "-D", str(self.data), "-p", str(self.port)),
            *("-k", str(self.folder), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"),
        ]

    def answers(self, log: str) -> bool:
        return "ready to accept connections" in log

"""MariaDB for tests: a server of its own in a temporary folder."""

import os

import pymysql

from tests.servers.database import DatabaseServer
from tests.servers.programs import MACHINE, MARIADB, Programs

DATABASE = "relevo"


class MariaDbServer(DatabaseServer):
    """One MariaDB on loopback, without passwords and with the empty database `relevo`; ended with `close`."""

    name = "mariadb"
    kind = MARIADB

    def __init__(self, programs: Programs | None = None) -> None:
        super().__init__(programs)
        self.create(DATABASE)

    def url(self, driver: str, database: str = DATABASE) -> str:
        """SQLAlchemy's address of it, for `pymysql` or `asyncmy`."""
        return f"mysql+{driver}://root@127.0.0.1:{self.port}/{database}?charset=utf8mb4"

    def create(self, database: str) -> None:
        """Makes one more database; there may be one already."""
        with (
            pymysql.connect(host="127.0.0.1", port=self.port, user="root") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS `{database}` CHARACTER SET utf8mb4")

    def set_read_only(self, read_only: bool) -> None:
        """As one that was demoted. It binds those without special rights: `user_url`."""
        with (
            pymysql.connect(host="127.0.0.1", port=self.port, user="root") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SET GLOBAL read_only = %s", (int(read_only),))

    def user_url(self) -> str:
        """For one who owns the database `relevo` and nothing else."""
        with (
            pymysql.connect(host="127.0.0.1", port=self.port, user="root") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("CREATE USER IF NOT EXISTS 'ada'@'127.0.0.1' IDENTIFIED BY ''")
            cursor.execute(f"GRANT ALL ON `{DATABASE}`.* TO 'ada'@'127.0.0.1'")
        return f"mariadb://ada@127.0.0.1:{self.port}/{DATABASE}"

    def initialiser(self) -> list[str]:
        install = str(self.programs.paths["mariadb-install-db"])
        return [
            *(install, "--no-defaults", *self._place(), f"--datadir={self.data}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"),
        ]

    def command(self) -> list[str]:
        return [
            *(str(self.programs.paths["mariadbd"]), "--no-defaults", *self._place(), f"--datadir={self.data}"),
            *(f"--socket={self.folder / 'server.sock'}", f"--port={self.port}", "--bind-address=127.0.0.1"),
            *(f"--pid-file={self.folder / 'server.pid'}", "--skip-name-resolve"),
            # What a crash of the machine would lose is no subject of a test.
            *("--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", "--skip-innodb-doublewrite"),
        ]

    def answers(self, log: str) -> bool:
        return "ready for connections" in log

    def _place(self) -> list[str]:
        user = ["--user=root"] if os.getuid() == 0 else []
        if self.programs.root == MACHINE:
            return user
        usr = self.programs.root / "usr"
        return [
            *user,
            f"--basedir={usr}",
            f"--lc-messages-dir={usr / 'share/mysql'}",
            f"--plugin-dir={usr / 'lib/mysql/plugin'}",
        ]

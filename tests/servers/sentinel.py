"""One master, one replica, and three sentinels that watch them."""

from collections.abc import Mapping
from pathlib import Path

import redis.asyncio
from redis.exceptions import RedisError

from tests.servers.process import ServerProcess, wait_until
from tests.servers.server import Client, Redis7, Server

MASTER_NAME = "relevo"


class SentinelProcess(ServerProcess):
    """A sentinel: it rewrites its configuration file itself, so we write that file once."""

    arguments = ("--sentinel",)

    def settings(self) -> dict[str, str]:
        return {"bind": "127.0.0.1", "port": str(self.port), "dir": f'"{self.folder}"'}

    def watch(self, master_port: int) -> None:
        """Tells a running sentinel which master to watch; two of three must agree that it is down."""
        self.call("SENTINEL", "MONITOR", MASTER_NAME, "127.0.0.1", master_port, 2)
        self.call("SENTINEL", "SET", MASTER_NAME, "down-after-milliseconds", 1000, "failover-timeout", 5000)

    def master_port(self) -> int:
        """The port of the master, as this sentinel sees it."""
        return int(self.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME)[1])

    def agrees(self) -> bool:
        """Whether this sentinel knows the two others and a replica fit to take over."""
        try:
            self.call("SENTINEL", "CKQUORUM", MASTER_NAME)
            others = self.call("SENTINEL", "SENTINELS", MASTER_NAME)
            replicas = [_pairs(row) for row in self.call("SENTINEL", "REPLICAS", MASTER_NAME)]
        except RedisError:
            return False
        fit = [row for row in replicas if row[b"flags"] == b"slave" and row[b"master-link-status"] == b"ok"]
        return len(others) == 2 and bool(fit)

    def _config(self) -> Path:
        file = self.folder / "server.conf"
        return file if file.exists() else super()._config()


class Sentinel(Server):
    """A master with a replica, found through sentinels; `failover` swaps the two."""

    name = "sentinel"

    def __init__(self, *, appendonly: bool = False, settings: Mapping[str, str] | None = None) -> None:
        persistence = {"appendonly": "yes", "appendfsync": "always"} if appendonly else {}
        common = {"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1", **persistence, **(settings or {})}
        binary = Redis7.binary()
        self._data = (ServerProcess(binary, common), ServerProcess(binary, common))
        self.sentinels = tuple(SentinelProcess(binary) for _ in range(3))

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'127.0.0.1:{each.port}' for each in self.sentinels)}/{MASTER_NAME}"

    @property
    def processes(self) -> tuple[ServerProcess, ...]:
        """The current master: what a test reads and flushes. Kill it with `kill`, and the replica takes over."""
        port = self.sentinels[0].master_port() if self.sentinels[0].running else self._data[0].port
        return tuple(each for each in self._data if each.port == port)

    @property
    def replica(self) -> ServerProcess:
        """The one that is not the master at this moment."""
        (master,) = self.processes
        return next(each for each in self._data if each is not master)

    def start(self) -> None:
        master, replica = self._data
        for process in (*self._data, *self.sentinels):
            process.start()
        replica.call("REPLICAOF", "127.0.0.1", master.port)
        wait_until(lambda: b"master_link_status:up" in replica.call("INFO", "replication"), "the replica's first copy")
        for sentinel in self.sentinels:
            sentinel.watch(master.port)
        self.wait_ready()

    def failover(self) -> None:
        """Makes the replica the master, in good order, and waits until every sentinel says so."""
        before = self.sentinels[0].master_port()
        self.wait_ready()
        self.sentinels[0].call("SENTINEL", "FAILOVER", MASTER_NAME)
        self.wait_for_another_master(before)

    def wait_for_another_master(self, before: int) -> None:
        """After a kill: waits until every sentinel points to a master other than the one on port `before`."""
        wait_until(
            lambda: (
                all(each.master_port() != before for each in self.sentinels)
                and b"role:master" in self.processes[0].call("INFO", "replication")
            ),
            "the failover",
            timeout=30,
        )

    def wait_ready(self) -> None:
        """Waits until every sentinel knows the others and a fit replica, without which no failover can happen."""
        wait_until(lambda: all(each.agrees() for each in self.sentinels), "the sentinels to agree", timeout=30)

    def restart(self) -> None:
        """Starts again whichever data process is down; it comes back as a replica when another is master by now."""
        for process in self._data:
            if not process.running:
                process.restart()

    def close(self) -> None:
        for process in (*self.sentinels, *self._data):
            process.close()

    def client(self) -> Client:
        """A client on the master of this moment; after a failover, ask again. Through the sentinels goes `url`."""
        kind: Client = redis.asyncio.Redis
        return kind(host="127.0.0.1", port=self.processes[0].port)


def _pairs(row: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(row[::2], row[1::2], strict=True))

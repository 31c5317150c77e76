"""A Redis Cluster of three masters on loopback, put together by our own code."""

from collections.abc import Mapping
from typing import Any

import redis.asyncio
from redis.crc import key_slot

from tests.servers.process import ServerProcess, free_port, wait_until
from tests.servers.server import Client, Redis86, Server

SLOTS = 16_384


class RedisCluster(Server):
    """Three masters, a third of the slots each, on the Redis 8.6 program."""

    name = "cluster"

    def __init__(self, *, appendonly: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self._nodes = tuple(self._node(appendonly, settings or {}) for _ in range(3))
        self._replicas: list[ServerProcess] = []

    @staticmethod
    def _node(appendonly: bool, settings: Mapping[str, str]) -> ServerProcess:
        persistence = {"appendonly": "yes", "appendfsync": "always"} if appendonly else {}
        cluster = {
            "cluster-enabled": "yes",
            "cluster-port": str(free_port()),
            "cluster-node-timeout": "2000",
            "cluster-require-full-coverage": "no",  # the death of one master leaves the others usable
        }
        return ServerProcess(Redis86.binary(), {**cluster, **persistence, **settings})

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self._nodes[0].port}"

    @property
    def processes(self) -> tuple[ServerProcess, ...]:
        return self._nodes

    def start(self) -> None:
        first, *others = self._nodes
        for node in self._nodes:
            node.start()
        for number, node in enumerate(self._nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            share = range(number * SLOTS // 3, (number + 1) * SLOTS // 3)
            node.call("CLUSTER", "ADDSLOTSRANGE", share.start, share.stop - 1)
        for node in others:
            _, bus_port = node.call("CONFIG", "GET", "cluster-port")
            first.call("CLUSTER", "MEET", "127.0.0.1", node.port, bus_port)
        self.wait_ready()

    def restart(self) -> None:
        super().restart()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Waits until every master knows the whole map."""
        wait_until(lambda: all(_knows_everyone(node) for node in self._nodes), "the cluster to agree on its slots")

    def add_replica(self, key: str | bytes) -> ServerProcess:
        """One more node, a replica of the master that holds `key`, which every master knows."""
        replica, master = self._node(appendonly=False, settings={"repl-diskless-sync-delay": "0"}), self.process_of(key)
        self._replicas.append(replica)
        replica.start()
        replica.call("CLUSTER", "MEET", "127.0.0.1", master.port, master.call("CONFIG", "GET", "cluster-port")[1])
        name = master.call("CLUSTER", "MYID")
        wait_until(lambda: name in replica.call("CLUSTER", "NODES"), "the replica to know its master")
        replica.call("CLUSTER", "REPLICATE", name)
        wait_until(lambda: b"master_link_status:up" in replica.call("INFO", "replication"), "the replica's first copy")
        port = replica.port
        wait_until(lambda: all(port in _ports(node) for node in self._nodes), "every master to know the replica")
        return replica

    def close(self) -> None:
        for replica in self._replicas:
            replica.close()
        super().close()

    def process_of(self, key: str | bytes) -> ServerProcess:
        """The master that holds `key`; a queue lives on one, because its keys share a hash tag."""
        slot = key_slot(key.encode() if isinstance(key, str) else key)
        return self._nodes[min(number for number in range(3) if slot < (number + 1) * SLOTS // 3)]

    def call_at(self, key: str | bytes, command: str, *arguments: str | bytes | int) -> Any:
        return self.process_of(key).call(command, key, *arguments)

    def client(self) -> Client:
        """A cluster client: the same commands, sent to the master that holds the key."""
        return redis.asyncio.RedisCluster(host="127.0.0.1", port=self._nodes[0].port)


def _knows_everyone(node: ServerProcess) -> bool:
    return b"cluster_state:ok" in node.call("CLUSTER", "INFO") and len(node.call("CLUSTER", "SLOTS")) == 3


def _ports(node: ServerProcess) -> set[int]:
    """Of all who hold slots, as one node sees it."""
    return {place[1] for _, _, *places in node.call("CLUSTER", "SLOTS") for place in places}

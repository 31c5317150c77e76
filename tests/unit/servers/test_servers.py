"""The servers themselves: what the other tests take for granted."""

import socket
import sys
from pathlib import Path

import pytest
import redis.asyncio
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError

from tests.conftest import Launch
from tests.pace import limit
from tests.servers.acl import AclUser
from tests.servers.binary import ServerUnavailable
from tests.servers.child import Child
from tests.servers.cluster import RedisCluster
from tests.servers.leaks import KeyLeaks
from tests.servers.pool import ServerPool
from tests.servers.process import ServerFailed, free_port, wait_until
from tests.servers.sentinel import Sentinel
from tests.servers.server import Client, EmbeddedValkey, Redis7, Redis86, Server, SingleServer
from tests.servers.tls import TlsRedis

ROOT = Path(__file__).parents[3]
CLIENT: Client = redis.asyncio.Redis
SINGLE = pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey], ids=["redis86", "redis7", "valkey"])


async def test_every_kind_answers_through_its_client(server: Server, raw: Client, queue_name: str) -> None:
    stream = f"{{chasqui:{queue_name}}}:stream"
    entry = await raw.xadd(stream, {"d": b"\x00\xff"})
    assert await raw.xrange(stream) == [(entry, {b"d": b"\x00\xff"})]


async def test_a_shared_server_is_empty_at_the_start_of_a_test(server: Server) -> None:
    assert server.keys_without_ttl() == []


async def test_only_redis_8_6_has_the_native_stream_commands(redis86: Server, redis7: Server, valkey: Server) -> None:
    commands = [b" ".join(server.call("COMMAND", "LIST")).lower() for server in (redis86, redis7, valkey)]
    assert [b"xackdel" in each for each in commands] == [True, False, False]


def test_a_lasting_key_outside_a_queue_is_a_leak(valkey: Server, key_leaks: KeyLeaks) -> None:
    for key in ("{chasqui:a}:stream", "{chasqui:a}:repeat:spec:x", "{chasqui:a}:result:1", "scratch:1"):
        valkey.call("SET", key, "1")
    valkey.call("SET", "{chasqui:a}:result:2", "1", "EX", 60)
    assert key_leaks.found(valkey) == [b"scratch:1", b"{chasqui:a}:result:1"]
    key_leaks.allow("scratch:*", "*:result:1")
    assert key_leaks.found(valkey) == []


def test_a_server_named_in_the_environment_is_borrowed(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    lender = launch(EmbeddedValkey)
    monkeypatch.setenv("RELEVO_TEST_REDIS86_URL", lender.url)
    pool = ServerPool()
    borrowed: Server = pool.get(Redis86)
    assert (borrowed.name, borrowed.url) == ("redis86", lender.url)
    borrowed.call("SET", "key", "1")
    assert borrowed.keys_without_ttl() == [b"key"]
    with pytest.raises(ServerFailed, match="borrowed"):
        borrowed.kill()
    pool.get(Redis86)
    assert borrowed.keys_without_ttl() == []
    pool.close()
    assert lender.running


def test_a_borrowed_server_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEVO_TEST_REDIS86_URL", f"redis://127.0.0.1:{free_port()}")
    with pytest.raises(ServerUnavailable, match="RELEVO_TEST_REDIS86_URL does not answer"):
        ServerPool().get(Redis86)


@SINGLE
def test_what_an_append_only_server_acknowledged_survives_a_kill(kind: type[SingleServer], launch: Launch) -> None:
    server = launch(kind, appendonly=True)
    before = server.url
    server.call("SET", "key", "kept", "EX", 600)
    server.kill()
    assert not server.running
    server.restart()
    assert server.url == before
    assert server.call("GET", "key") == b"kept"


def test_a_paused_server_does_not_answer_until_resumed(launch: Launch) -> None:
    server = launch(EmbeddedValkey)
    server.pause()
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.2) as connection:
        connection.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            connection.recv(16)
        server.resume()
        connection.settimeout(limit(10))
        assert connection.recv(16) == b"+PONG\r\n"


def test_a_queue_lives_on_one_master_of_the_cluster(cluster: RedisCluster, queue_name: str) -> None:
    names = ("stream", "dlq", "delayed")
    homes = {cluster.process_of(f"{{chasqui:{queue_name}}}:{name}").port for name in names}
    assert len(homes) == 1
    home = cluster.process_of(f"{{chasqui:{queue_name}}}:stream")
    assert home.call("XADD", f"{{chasqui:{queue_name}}}:stream", "*", "d", "1")


async def test_tls_is_spoken_and_an_unknown_authority_refused(tls_redis: TlsRedis, raw: Client) -> None:
    assert await raw.ping()
    stranger = CLIENT.from_url(tls_redis.untrusting_url, retry=None)
    with pytest.raises(RedisConnectionError, match="certificate verify failed"):
        await stranger.ping()
    await stranger.aclose()


async def test_a_limited_user_sees_only_its_own_keys(redis7: Server) -> None:
    with AclUser(redis7) as user:
        client = CLIENT.from_url(user.url)
        assert await client.set("{chasqui:q}:result:1", "1", ex=60)
        with pytest.raises(NoPermissionError):
            await client.get("other")
        with pytest.raises(NoPermissionError):
            await client.flushall()
        await client.aclose()


async def test_sentinels_move_the_master(sentinel: Sentinel, raw: Client) -> None:
    before = sentinel.processes[0].port
    await raw.set("key", "1", ex=600)
    sentinel.processes[0].call("WAIT", 1, 5000)
    sentinel.failover()
    assert sentinel.processes[0].port != before
    assert sentinel.call("GET", "key") == b"1"


def test_a_run_that_is_killed_leaves_neither_a_server_nor_its_folder() -> None:
    program = (
        "from tests.servers.server import EmbeddedValkey; server = EmbeddedValkey(); server.start();"
        "print(server.process.port, server.process.folder, flush=True); input()"
    )
    with Child(sys.executable, "-c", program, cwd=ROOT) as run:
        port, folder = run.line().split()
        run.kill()
    wait_until(lambda: not Path(folder).exists(), "the folder to go")
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", int(port)))

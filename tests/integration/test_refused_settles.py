"""A server that refuses writes for a while: what became of jobs is kept until it takes it, and no job runs again for that."""

import asyncio
import logging
from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from relevo import Job, UnrecoverableError
from tests.conftest import Launch
from tests.integration.staff import Staff
from tests.patience import until
from tests.servers.acl import APPLICATION_RULES, AclUser
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, SingleServer
from tests.support.runs import Runs

KINDS = pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey], ids=lambda kind: kind.name)


class Fault(ABC):
    """A reason for which a server refuses what a worker writes."""

    said: tuple[str, ...]
    """One of these is in what the server says."""

    def __init__(self, server: SingleServer) -> None:
        self.server = server

    def begin(self) -> str:
        """Prepares; the address for a worker."""
        return self.server.url

    @abstractmethod
    def strike(self) -> None: ...

    @abstractmethod
    def heal(self) -> None: ...


class NoRights(Fault):
    """Somebody has taken the rights away that settling needs."""

    said = ("NOPERM", "ACL failure", "The user executing the script")

    def begin(self) -> str:
        user = AclUser(self.server)
        self.server.call("ACL", "SETUSER", "app", "reset", "on", ">s3cret/+", *APPLICATION_RULES)
        return user.url

    def strike(self) -> None:
        self.server.call("ACL", "SETUSER", "app", "-xack", "-xdel", "-zadd", *self._native())

    def heal(self) -> None:
        self.server.call("ACL", "SETUSER", "app", *APPLICATION_RULES)

    def _native(self) -> tuple[str, ...]:
        return ("-xackdel",) if isinstance(self.server, Redis86) else ()


class CannotSave(Fault):
    """It is to save what it has, and a folder is in the way of its file."""

    said = ("MISCONF",)

    def begin(self) -> str:
        self.server.call("CONFIG", "SET", "save", "3600 1")
        return self.server.url

    def strike(self) -> None:
        self._file.unlink(missing_ok=True)
        self._file.mkdir()
        self._save("err")

    def heal(self) -> None:
        self._file.rmdir()
        self._save("ok")

    @property
    def _file(self) -> Path:
        return self.server.processes[0].folder / "dump.rdb"

    def _save(self, status: str) -> None:
        self.server.call("BGSAVE")
        while f"rdb_last_bgsave_status:{status}" not in bytes(self.server.call("INFO", "persistence")).decode():
            pass


FAULTS = pytest.mark.parametrize("fault", [NoRights, CannotSave], ids=["no-rights", "cannot-save"])


@KINDS
@FAULTS
async def test_outcomes_outlast_a_server_that_refuses_them(
    kind: type[SingleServer],
    fault: type[Fault],
    launch: Launch,
    staff: Staff,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = launch(kind)
    refusing = fault(server)
    url = refusing.begin()
    queue, began, gate = await staff.queue(server.url), Runs(), asyncio.Event()

    async def handler(job: Job) -> str | None:
        await began(job)
        await gate.wait()
        if job.name == "again" and job.attempt == 0:
            raise RuntimeError("again")
        if job.name == "never":
            raise UnrecoverableError("never")
        return "an answer" if job.name == "answers" else None

    worker = await staff.worker(url, handler, store_results=True, claim_min_idle_ms=2000)
    names = ("ok", "again", "never", "answers")
    for name in names:
        await queue.add(name, {}, backoff=1)
    await began.until(len(names))
    refusing.strike()
    gate.set()
    await until(lambda: not worker.health().can_claim)
    assert any(words in worker.health().reason for words in refusing.said), worker.health().reason
    for _ in range(3):  # and again and again, while it lasts
        await worker.settled.wait_for()
    refusing.heal()
    await worker.until(done=3, retried=1, dead=1)
    assert sorted(began.names) == ["again", "again", "answers", "never", "ok"]
    assert worker.health().can_claim
    said = [record.getMessage() for record in caplog.records if record.name == "relevo.settler"]
    assert [line.partition(" what became")[0] for line in said] == ["Redis refuses", "Redis takes"], said
    assert caplog.records[0].levelno >= logging.WARNING

"""Whom the sentinels name: the later election counts, and nobody is asked when nobody follows."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from relevo.broker import master_watch
from relevo.broker.address import Address, Node
from relevo.broker.master_watch import MasterWatch
from relevo.broker.resp import Reply
from relevo.broker.transport import Transport
from tests.patience import until
from tests.support.fake_server import Command, FakeServer

ADDRESS = Address.parse("redis+sentinel://one:1,two:2/relevo")
FIRST, SECOND = Node("first", 6379), Node("second", 6379)


class FakeSentinel(FakeServer):
    def __init__(self) -> None:
        super().__init__()
        self.names(FIRST, election=1)
        self.on["SENTINEL"] = self._answer

    def names(self, master: Node, *, election: int) -> None:
        self._master, self._election = master, election

    def _answer(self, command: Command) -> Reply:
        host, port = self._master.host.encode(), b"%d" % self._master.port
        if command[1] == b"MASTER":
            return [b"name", b"relevo", b"config-epoch", b"%d" % self._election]
        return [host, port]


class Watched:
    def __init__(self) -> None:
        self.sentinels = FakeSentinel(), FakeSentinel()
        self.told: list[Node] = []
        self.stop = MasterWatch.of(ADDRESS, self._dial).follow(self.told.append)

    async def _dial(self, _: Address, node: Node) -> Transport:
        return self.sentinels[node.port - 1].dial(node, 15.0)

    async def look(self, times: int = 2) -> Node:
        """The master that the last of so many further looks told."""
        seen = len(self.told) + times
        await until(lambda: len(self.told) >= seen)
        return self.told[-1]


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Watched]:
    monkeypatch.setattr(master_watch, "EVERY_S", 0.001)
    watched = Watched()
    yield watched
    watched.stop()


async def test_a_new_master_is_told(watched: Watched) -> None:
    assert await watched.look() == FIRST
    for sentinel in watched.sentinels:
        sentinel.names(SECOND, election=2)
    await until(lambda: watched.told[-1] == SECOND)


async def test_a_sentinel_that_missed_an_election_is_not_believed(watched: Watched) -> None:
    watched.sentinels[1].names(SECOND, election=2)
    await until(lambda: SECOND in watched.told)
    before = len(watched.sentinels[0].seen)
    seen = len(watched.told)
    await until(lambda: len(watched.sentinels[0].seen) > before + 4)
    assert set(watched.told[seen:]) == {SECOND}


async def test_a_sentinel_that_is_away_does_not_end_it(watched: Watched) -> None:
    watched.sentinels[0].away = True
    watched.sentinels[0].drop()
    assert await watched.look(5) == FIRST


async def test_who_goes_to_the_same_master_shares_the_watch_and_the_last_one_ends_it(watched: Watched) -> None:
    watch = MasterWatch.of(ADDRESS, watched._dial)  # pyright: ignore[reportPrivateUsage]
    other: list[Node] = []
    stop = watch.follow(other.append)
    await until(lambda: len(other) > 1)
    assert len([task for task in asyncio.all_tasks() if task.get_name() == "relevo-master-watch"]) == 1
    stop()
    assert await watched.look() == FIRST

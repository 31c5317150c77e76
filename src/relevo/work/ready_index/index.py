"""The order index: each queue's pending messages in a sorted set of Redis. It can be deleted at any moment.

Rows are the truth. The set only says in which order they come, to spare the database that question; what it lacks is asked of
SQL, what it has too much is dropped when it is taken, because a claim changes a row only while that is pending. See
docs/decisions/0010-the-order-can-be-thrown-away.md.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import NamedTuple

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, ReplyError, command
from relevo.broker.scripts import script
from relevo.engine.service.loop import Loop
from relevo.engine.service.signals import Signal
from relevo.errors import RelevoError
from relevo.wire.ids import IdMint
from relevo.work.faults import fault
from relevo.work.store.interface import PlainRows
from relevo.work.store.unit_of_work import Ready

log = logging.getLogger("relevo.order")

ADD = script("order_add", __name__)
TAKE = script("order_take", __name__)
BEGIN = script("order_begin", __name__)
PAGE = script("order_page", __name__)
FINISH = script("order_finish", __name__)
SCRIPTS = (ADD, TAKE, BEGIN, PAGE, FINISH)

_PATIENCE_S = 0.5
"""How long a publish or a claim waits for Redis before it goes on without."""
_TAKEN_FOR_MS = 5_000
"""After this long what a claim took and did not settle goes back: its process is gone, or its commit hangs."""
_LIVES_MS = 3_600_000
"""An index that nobody claims from is forgotten, and made again when somebody does."""
_BUILDING_MS = 30_000
_PAGE = 5_000
_LOOK_EVERY_S = 5.0
"""How often a claim asks the rows although the index could answer: a member that got lost is found by then."""


PendingPage = Callable[[int, tuple[int, str], int], Awaitable[list[tuple[int, str]]]]
"""The next pending messages of a queue behind a place in its order, at most so many: (sort key, id) of each."""


class IndexLease(NamedTuple):
    """What the index gave out for one claim."""

    ids: list[str]
    members: list[bytes]


class Keys(NamedTuple):
    """A queue's keys in Redis."""

    tag: bytes
    order: bytes
    building: bytes
    taken: bytes
    builder: bytes

    @staticmethod
    def of(installation: str, queue_id: int) -> Keys:
        tag = f"{{{installation}:{queue_id}}}".encode()
        return Keys(tag, *(b"rw:" + tag + b":" + name for name in (b"order", b"building", b"taken", b"builder")))


class _Asking(NamedTuple):
    """A claim that waits for its members."""

    queue_id: int
    wanted: int
    answer: asyncio.Future[IndexLease | None]


class _Server:
    """One server of indexes, with the mark that tells whether an index was built on its present run."""

    def __init__(self, address: Address, tag: bytes) -> None:
        self.link = Link(address, tag, purpose="order", scripts=SCRIPTS, wait=_PATIENCE_S, patience=5.0)
        self.asked: list[_Asking] = []
        """Claims of this turn of the loop."""
        self._seat = -1
        self._mark = b""

    async def mark(self) -> bytes:
        """A restarted server may have come back with an older state, a replica may lack the last writes: what was built
        before is not trusted then."""
        if self._seat != self.link.client_id:
            seat = self.link.client_id
            info = await self.link.call("INFO", "server")
            runs = [line for line in info.split(b"\r\n") if line.startswith(b"run_id:")]
            self._mark = b"~" + (runs[0].partition(b":")[2] if runs else str(seat).encode())
            self._seat = seat
        return self._mark


class ReadyIndex:
    """The order indexes of all queues, as one process uses them. No method raises because Redis is away."""

    def __init__(
        self, redis_url: str | None, pending_page: PendingPage, mint: IdMint, *, claims_by_index: bool
    ) -> None:
        self._pending_page = pending_page
        self._mint = mint
        self._installation = ""
        self._address = None if redis_url is None else Address.parse(redis_url)
        self._by_index = claims_by_index
        self._servers: dict[bytes, _Server] = {}
        self._keys: dict[int, Keys] = {}
        self._doubted: set[int] = set()
        self._looked: dict[int, float] = {}
        self._through: dict[int, list[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._builder = _Builder(self)

    @property
    def builder(self) -> _Builder:
        """Builds what is missing; tests wait for its `built`."""
        return self._builder

    @property
    def in_use(self) -> bool:
        """Whether claims are ordered by the index now, and not by SQL alone."""
        return self._by_index and any(server.link.up for server in self._servers.values())

    def open(self, installation: str) -> None:
        """`installation` names its keys in Redis."""
        self._installation = installation
        if self._address is not None:
            if self._address.kind != "cluster":
                self._server(Keys.of(self._installation, 0)).link.open_soon()
            self._builder.start()

    async def close(self) -> None:
        if self._address is not None:
            self._builder.cancel()
            await self._builder.stop()
            await asyncio.gather(*self._tasks)
            for server in self._servers.values():
                await server.link.close()

    def keys(self, queue_id: int) -> Keys:
        keys = self._keys.get(queue_id)
        if keys is None:
            keys = self._keys[queue_id] = Keys.of(self._installation, queue_id)
        return keys

    # --- publish ---------------------------------------------------------------------------------------------------------

    async def add(self, ready: Sequence[Ready], published: Sequence[PlainRows] = ()) -> None:
        """These messages are pending: committed rows only. `WorkQueues.transact` calls it after its commits."""
        if self._address is None or not (ready or published):
            return
        by_queue: dict[int, list[Ready | PlainRows]] = {}
        for each in (*ready, *published):
            by_queue.setdefault(each.queue_id, []).append(each)
        by_server: dict[_Server, dict[int, list[Ready | PlainRows]]] = {}
        for queue_id, told in by_queue.items():
            by_server.setdefault(self._server(self.keys(queue_id)), {})[queue_id] = told
        for server, queues in by_server.items():
            if self._by_index:
                await self._add(server, queues)
            else:  # claims of this process do not ask the index: its answers need not wait for what others keep
                self._keep(asyncio.create_task(self._add(server, queues)))

    async def _add(self, server: _Server, queues: dict[int, list[Ready | PlainRows]]) -> None:
        link = server.link
        if not link.up:
            link.open_soon()
            self._doubted.update(queues)
            return
        wanted = [*queues]
        try:
            async with asyncio.timeout(_PATIENCE_S):
                if not self._by_index:
                    wanted = await self._indexed(link, wanted)
                members = [(queue_id, _members(queues[queue_id])) for queue_id in wanted]
                refused = await self._send(link, members) if members else []
        except (RelevoError, TimeoutError) as error:
            self._away(server, error)
            refused = wanted
        if refused:
            self._doubted.update(refused)
            self._builder.wake()

    async def _send(self, link: Link, queues: list[tuple[int, list[Argument]]]) -> list[int]:
        """Adds them; the queues whose adds were refused."""
        data = b"".join(
            link.script_call(ADD, (self.keys(queue_id).order, self.keys(queue_id).building), members)
            for queue_id, members in queues
        )
        replies = await link.send(data, len(queues))
        return [queue_id for (queue_id, _), reply in zip(queues, replies, strict=True) if _is_error(reply)]

    async def _indexed(self, link: Link, queues: list[int]) -> list[int]:
        """Those queues that somebody keeps an index of, or builds one. Whoever begins to build after this look finds our rows,
        which are committed; so a node that claims by SQL itself spares everybody the members that nobody would keep."""
        keys = [self.keys(queue_id) for queue_id in queues]
        asked = b"".join(command("EXISTS", each.order, each.building) for each in keys)
        replies = await link.send(asked, len(queues))
        return [each for each, reply in zip(queues, replies, strict=True) if reply != 0]

    # --- claim -----------------------------------------------------------------------------------------------------------

    async def take(self, queue_id: int, count: int) -> IndexLease | None:
        """The first members, noted as taken; None when claims have to ask SQL (and the index is then asked for)."""
        if self._address is None or not self._by_index:
            return None
        if queue_id in self._doubted:
            self._builder.wake()
            return None
        now = time.monotonic()
        if now - self._looked.setdefault(queue_id, now) > _LOOK_EVERY_S:
            self._looked[queue_id] = now
            return None
        server = self._server(self.keys(queue_id))
        if not server.link.up:
            server.link.open_soon()
            return None
        loop = asyncio.get_running_loop()
        asking = _Asking(queue_id, count, loop.create_future())
        server.asked.append(asking)
        if len(server.asked) == 1:
            loop.call_soon(self._ask_soon, server)
        return await asking.answer

    def _ask_soon(self, server: _Server) -> None:
        """All questions of one turn of the loop travel together."""
        asked, server.asked = server.asked, []
        self._keep(asyncio.get_running_loop().create_task(self._ask(server, asked)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Holds a task that nobody waits for."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, server: _Server, asked: list[_Asking]) -> None:
        now_ms = time.time_ns() // 1_000_000
        answers: list[IndexLease | None] = [None] * len(asked)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                tail = (now_ms, now_ms - _TAKEN_FOR_MS, _LIVES_MS)
                mark = await server.mark()
                calls = [
                    server.link.script_call(TAKE, _of_take(self.keys(each.queue_id)), (mark, each.wanted, *tail))
                    for each in asked
                ]
                replies = await server.link.send(b"".join(calls), len(calls))
            answers = [self._answer(each.queue_id, reply) for each, reply in zip(asked, replies, strict=True)]
        except (RelevoError, TimeoutError) as error:
            self._away(server, error)
        finally:
            for each, answer in zip(asked, answers, strict=True):
                if not each.answer.done():
                    each.answer.set_result(answer)

    def _answer(self, queue_id: int, reply: Reply) -> IndexLease | None:
        if reply is None or _is_error(reply):
            self.want(queue_id)
            return None
        return IndexLease([member.partition(b":")[2].decode() for member in reply], reply)

    def taken_up(self, queue_id: int, taken: IndexLease) -> None:
        """The claim is through, one way or the other: these need not go back. Not waited for."""
        if not taken.members:
            return
        if not self._through:
            asyncio.get_running_loop().call_soon(self._tell_through)
        self._through.setdefault(queue_id, []).extend(taken.members)

    def _tell_through(self) -> None:
        through, self._through = self._through, {}
        for queue_id, members in through.items():
            keys = self.keys(queue_id)
            transport = self._server(keys).link.open_transport
            if transport is not None:
                transport.submit(command("ZREM", keys.taken, *members), 1, _ignore)

    # --- building --------------------------------------------------------------------------------------------------------

    def want(self, queue_id: int) -> None:
        """Has this queue's index made anew soon; until then claims ask SQL."""
        self._doubted.add(queue_id)
        self._builder.wake()

    @property
    def doubted(self) -> set[int]:
        """Queues whose index has to be made anew."""
        return self._doubted

    async def rebuild(self, queue_id: int) -> bool:
        """Makes a queue's index anew from its rows, while claims and publishes go on. False: Redis is away, or another
        process is at it.

        What is committed before the new index has its mark is seen by the pages, what is committed later is added to it by
        whoever commits; rows that were claimed meanwhile are dropped when they are taken.
        """
        if self._address is None:
            return False
        keys = self.keys(queue_id)
        server = self._server(keys)
        token = self._mint()
        await server.link.ready()
        mark = await server.mark()
        if not await server.link.run(BEGIN, (keys.builder, keys.building), token, mark, _BUILDING_MS):
            return False
        fault("rebuild.begun")
        self._doubted.discard(queue_id)  # an add that fails from here on doubts it anew
        done = False
        try:
            done = await self._build(server, keys, queue_id, token, mark)
        finally:
            if not done:
                self._doubted.add(queue_id)
        return done

    async def _build(self, server: _Server, keys: Keys, queue_id: int, token: str, mark: bytes) -> bool:
        own = (keys.builder, keys.building)
        after: tuple[int, str] = (-(2**62), "")
        while page := await self._pending_page(queue_id, after, _PAGE):
            members = [part for row in page for part in row]
            if not await server.link.run(PAGE, own, token, mark, _BUILDING_MS, *members):
                return False
            after = page[-1]
            fault("rebuild.paged")
        fault("rebuild.scanned")
        return bool(await server.link.run(FINISH, (*own, keys.order), token, mark, _LIVES_MS))

    async def repair(self, queue_id: int) -> bool:
        """Does something about an index in doubt. A process that claims by SQL only sees to it that nobody trusts it."""
        if self._by_index:
            return await self.rebuild(queue_id)
        keys = self.keys(queue_id)
        await self._server(keys).link.call("DEL", keys.order, keys.building)
        self._doubted.discard(queue_id)
        return True

    async def size(self, queue_id: int) -> int | None:
        """Members of the index, those just being taken included; None when there is no complete index. For the auditor."""
        if self._address is None:
            return None
        keys = self.keys(queue_id)
        server = self._server(keys)
        try:
            mark = await server.mark()
            if await server.link.call("ZSCORE", keys.order, mark) is None:
                return None
            return await server.link.call("ZCARD", keys.order) - 1 + await server.link.call("ZCARD", keys.taken)
        except RelevoError:
            return None

    async def places(self, queue_id: int, ids: Sequence[str]) -> list[int | None] | None:
        """Where the index has these messages, None for those it has not; None for all when there is no complete index."""
        if self._address is None or await self.size(queue_id) is None:
            return None
        if not ids:
            return []
        keys = self.keys(queue_id)
        try:
            found = await self._server(keys).link.call("ZMSCORE", keys.order, *ids)
        except RelevoError:
            return None
        return [None if score is None else int(float(score)) for score in found]

    # --- servers ---------------------------------------------------------------------------------------------------------

    def _server(self, keys: Keys) -> _Server:
        """A cluster has one link a queue, since each may live elsewhere; any other server has one for all."""
        assert self._address is not None
        place = keys.tag if self._address.kind == "cluster" else b""
        server = self._servers.get(place)
        if server is None:
            server = self._servers[place] = _Server(self._address, keys.tag)
        return server

    def _away(self, server: _Server, error: Exception) -> None:
        log.debug("the order index does not answer: %s", error)
        if isinstance(error, TimeoutError):
            server.link.drop("no answer in time")


class _Builder(Loop):
    """Makes the indexes that are missing or in doubt."""

    def __init__(self, order: ReadyIndex) -> None:
        super().__init__("order", every=1.0)
        self.built: Signal[int] = Signal()
        """Emitted with the id of a queue whose index was made."""
        self._order = order

    async def tick(self) -> float | None:
        for queue_id in list(self._order.doubted):
            try:
                built = await self._order.repair(queue_id)
            except RelevoError as error:  # Redis is away, or the database is
                log.debug("the index of queue %s is not there yet: %s", queue_id, error)
                return 0.5
            if built:
                self.built.emit(queue_id)
        return 0.05 if self._order.doubted else None


def _of_take(keys: Keys) -> tuple[bytes, bytes]:
    return keys.order, keys.taken


def _is_error(reply: object) -> bool:
    return isinstance(reply, ReplyError)


def _ignore(_: object) -> None:
    """Members that stay noted as taken go back after a while, and are dropped when their rows say so."""


def _members(told: Sequence[Ready | PlainRows]) -> list[Argument]:
    """Places and ids of messages of one queue."""
    members: list[Argument] = []
    for each in told:
        if isinstance(each, Ready):
            members += (each.sort_key, each.id)
        else:
            members += chain.from_iterable(zip(each.sort_keys, each.ids, strict=True))
    return members

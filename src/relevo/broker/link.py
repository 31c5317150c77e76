"""A connection that comes back: finds the server of a key, signs in, and does so again after every loss."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import ssl
import time
from collections.abc import Callable, Iterable, Sequence

from relevo.broker.address import Address, Node, slot_of
from relevo.broker.capabilities import Capabilities
from relevo.broker.master_watch import MasterWatch
from relevo.broker.resp import ELSEWHERE, Argument, Reply, ReplyError, command, pack
from relevo.broker.scripts import Script
from relevo.broker.transport import Seat, Transport, send, sign_in
from relevo.errors import ConnectionLost, Redirected, RelevoError, ServerRefused, Unreachable

log = logging.getLogger("relevo.link")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_REDIRECTS = 5
_ASIDE_S = 2.0
_QUESTIONS = frozenset(
    {
        *("EXISTS", "GET", "HGET", "HGETALL", "HLEN", "HMGET", "LLEN", "LRANGE", "MGET", "SCARD", "TIME"),
        *("XINFO", "XLEN", "XPENDING", "XRANGE", "XREVRANGE", "ZCARD", "ZRANGE", "ZRANGEBYSCORE", "ZSCORE"),
    }
)
_REFUSING = frozenset({"READONLY", "NOREPLICAS", "LOADING", "MASTERDOWN", "CLUSTERDOWN"})
"""What a server says that will take the command later, or whose successor will."""

_PASSING = frozenset({"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"})
_FULL_HOUSE = "max number of clients"
_EPISODE_S = 10.0
"""A refusal that comes longer after the last one begins another story, and another line in the log."""


class Link:
    """The way to one queue's server, for one purpose (reading, settling, ...).

    `call` and `send` wait while the connection is being made, at most `wait` seconds, and fail with `ConnectionLost` when it
    breaks under them: only the caller knows whether sending again is safe. `Redirected` means that at least one command was
    not carried out (a cluster moved the queue, a replica took over, scripts were flushed): the link has already turned to
    the right place, send again what may be repeated. `call` and `run` do that themselves.

        new ──── first use ────▶ opening ◀──── next use ──── lost
                                  │  ▲ │                      ▲
                 not there: after │  │ │ signed in,           │ the server hangs up, or stays silent
                 a pause, again   └──┘ │ scripts loaded       │ for `patience` seconds, or says that
                                       ▼                      │ the queue has moved (`drop`)
                                      up ─────────────────────┘

    A sign-in that is refused (no right, wrong password, no such database, no TLS) ends the opening: whoever waits is told, and
    the next use tries again. A server that refuses commands for now (a replica without its master, one that is loading) is
    asked again after pauses that grow; `call`, `run` and `repeat` end within `wait` then, with the server's own words.
    `close` ends every state for good.
    """

    def __init__(
        self,
        address: Address,
        tag: bytes,
        *,
        purpose: str,
        scripts: Iterable[Script] = (),
        opening_words: Sequence[bytes] = (),
        patience: float = 15.0,
        wait: float | None = None,
    ) -> None:
        self.address = address
        self.purpose = purpose
        self.capabilities: Capabilities = Capabilities(ack_delete=False, read_claim=False)
        self.client_id: int = 0
        self._seat: Seat | None = None
        self._tag = tag
        self._scripts = tuple(scripts)
        self._opening_words = opening_words
        self._patience = patience
        self.wait = wait
        self._whole = False
        self._scripts_gone = False
        self._transport: Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self._hint: Node | None = None
        self._unfollow: Callable[[], None] | None = None
        self._back_at = -math.inf
        self._was_down_s = 0.0
        self._known = list(address.nodes)
        self._failure: Exception | None = None
        self._down_since: float | None = None
        self._ever_up = False
        self._lost_told = False
        self._turned_away = False
        self._refusing_since: float | None = None
        self._refused_at = float("-inf")
        self._closed = False

    # --- using it --------------------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        return self._transport is not None and not self._transport.closed

    @property
    def closed(self) -> bool:
        """Closed by us, for good: whoever sends again after a loss would do so for ever."""
        return self._closed

    @property
    def open_transport(self) -> Transport | None:
        """The transport, if it is open right now."""
        return self._transport if self.up else None

    @property
    def down_for(self) -> float:
        """Seconds since the connection was lost; 0 while it is there."""
        return 0.0 if self.up or self._down_since is None else time.monotonic() - self._down_since

    def back_for(self, *, longer_than_s: float) -> float:
        """Seconds since it came back, if it was gone for longer than that; else infinite."""
        return time.monotonic() - self._back_at if self._was_down_s > longer_than_s else math.inf

    def open_soon(self) -> None:
        """Begins to connect without waiting: for a link whose first use must not find that it cannot."""
        if not self.up and not self._closed:
            self._start_opening()

    async def ready(self, wait: float | None = None) -> Transport:
        """The open transport; opens it first if need be."""
        transport = self._transport
        if transport is not None and not transport.closed:
            return transport
        limit = wait if wait is not None else self.wait
        started = time.monotonic()
        while not self.up:
            if self._closed:
                raise ConnectionLost(address=self.address, reason="closed by us")
            self._start_opening()
            left = None if limit is None else limit - (time.monotonic() - started)
            try:
                async with asyncio.timeout(left):
                    await self._opened.wait()
            except TimeoutError:
                raise Unreachable(address=self.address, waited_s=limit, reason=_why(self._failure)) from self._failure
            if not self.up and isinstance(self._failure, ServerRefused):
                raise self._failure
        assert self._transport is not None
        return self._transport

    async def call(self, *arguments: Argument) -> Reply:
        """One command; an error reply is raised as `ServerRefused`. A question that was cut off is simply asked again."""
        packed, what = pack(arguments), str(arguments[0])
        if arguments[0] in _QUESTIONS:
            with contextlib.suppress(ConnectionLost):
                return self.checked((await self.repeat(lambda: packed, 1, what))[0], what)
        return self.checked((await self.repeat(lambda: packed, 1, what))[0], what)

    async def run(self, script: Script, keys: Sequence[bytes], *arguments: Argument) -> Reply:
        """One script call."""
        what = f"{script.name}.lua"
        return self.checked((await self.repeat(lambda: self.script_call(script, keys, arguments), 1, what))[0], what)

    async def repeat(self, packed: Callable[[], bytes], count: int, what: str) -> list[Reply]:
        """Packed commands that may be sent again as a whole, or a single one, which has not been carried out when it was
        refused: sent again while the server refuses, to where it says, for `wait` seconds."""
        started, refused = time.monotonic(), 0
        while True:
            await self.ready()
            try:
                replies = await self.send(packed(), count)
            except Redirected as error:
                refused += 1
                if self.wait is None:
                    if refused > _REDIRECTS:
                        raise
                elif time.monotonic() - started + self._pause() > self.wait:
                    raise ServerRefused(command=what, reason=error.fields["reason"]) from error
            else:
                if refused:
                    self.accepted()
                return replies

    def script_call(self, script: Script, keys: Sequence[bytes], arguments: Sequence[Argument]) -> bytes:
        """A packed script call for this server, to be sent in a pipeline; the link must be `ready`."""
        return script.call(self.capabilities, keys, arguments, whole=self._whole)

    async def send(self, data: bytes, count: int) -> list[Reply]:
        """Packed commands; error replies are values in the list, except those that mean "not here" (`Redirected`)."""
        transport = self._transport
        if transport is None or transport.closed:
            transport = await self.ready()
        replies = await send(transport, data, count)
        await self.turned(replies, transport)
        return replies

    async def turned(self, replies: list[Reply], transport: Transport) -> None:
        """Turns to where the replies say that the commands should go, if they do, and raises `Redirected`. For those who
        submit to the transport themselves."""
        if ReplyError in map(type, replies):  # hundreds of replies a flush, and hardly ever one of these
            for reply in replies:
                if reply.__class__ is ReplyError and self.elsewhere(reply, transport):
                    await self.recover(reply)
                    raise Redirected(address=transport.node, reason=str(reply)) from reply

    async def close(self) -> None:
        self._closed = True
        if self._unfollow is not None:
            self._unfollow()
            self._unfollow = None
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._transport is not None:
            self._transport.close()
        self._opened.set()

    def drop(self, reason: str) -> None:
        """Gives the present connection up; the next use opens another."""
        if self._transport is not None and not self._transport.closed:
            log.debug("%s link to %s dropped: %s", self.purpose, self._transport.node, reason)
            self._transport.close(reason)

    @staticmethod
    def checked(reply: Reply, what: str) -> Reply:
        """The reply, unless it is an error."""
        if reply.__class__ is ReplyError:
            raise ServerRefused(command=what, reason=str(reply)) from reply
        return reply

    def elsewhere(self, error: ReplyError, transport: Transport) -> bool:
        """Whether an error reply means "not carried out, try again"; if so the link turns to where it should go."""
        code = error.code
        if code == "NOSCRIPT":
            self._scripts_gone = True
            return True
        if code not in ELSEWHERE:
            return False
        if code == "MOVED":
            self._hint = _moved_to(error, transport)
        if code not in ("UNBLOCKED", "TRYAGAIN", "NOREPLICAS"):
            self._turned_away = True
            self.drop(str(error))
        return True

    async def recover(self, error: ReplyError) -> None:
        """What has to happen after `elsewhere` before the next try: load flushed scripts, or give the server a moment."""
        if self._scripts_gone:
            self._scripts_gone = False
            await self._load_scripts(await self.ready())
        elif error.code in _REFUSING:
            now = time.monotonic()
            if self._refusing_since is None or now - self._refused_at > _EPISODE_S:
                self._refusing_since = now
                log.warning("%s link: %s refuses for now: %s", self.purpose, self.address, error)
            self._refused_at = now
            await asyncio.sleep(self._pause())
        elif error.code not in ("MOVED", "UNBLOCKED"):
            await asyncio.sleep(_FIRST_PAUSE)

    def accepted(self) -> None:
        """Told by whoever was refused before, or writes: the server takes commands. What only reads cannot tell."""
        if self._refusing_since is not None:
            after = time.monotonic() - self._refusing_since
            self._refusing_since = None
            log.warning("%s link: %s accepts again after %.1f s", self.purpose, self.address, after)

    def _pause(self) -> float:
        """Half as long as the server has been refusing, within bounds: a failover is soon over, a lost master is not."""
        longest = _LONGEST_PAUSE if self.wait is None else min(_LONGEST_PAUSE, self.wait / 10)
        since = self._refusing_since
        return min(longest, max(_FIRST_PAUSE, 0.0 if since is None else (time.monotonic() - since) / 2))

    # --- making it -------------------------------------------------------------------------------------------------

    def _start_opening(self) -> None:
        if self._opening is None or self._opening.done():
            self._opened.clear()
            if self._down_since is None:
                self._down_since = time.monotonic()
            if self._ever_up and not self._turned_away:
                self._tell_lost()
            self._turned_away = False
            self._opening = asyncio.create_task(self._open(), name=f"relevo-{self.purpose}-link")

    def _tell_lost(self) -> None:
        if not self._lost_told:
            self._lost_told = True
            log.warning("%s link to %s lost; reconnecting", self.purpose, self.address)

    async def _open(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                # Not `wait_for`: before Python 3.12 it swallows a cancellation that meets the end of what it waits for, and
                # `close` would wait for ever.
                async with asyncio.timeout(10):
                    await self._open_once()
            except (OSError, RelevoError, ReplyError, TimeoutError) as error:
                self._failure = _final(error)
                if isinstance(self._failure, ServerRefused):
                    self._opened.set()  # whoever waits is told; the next use tries again
                    return
                if self._ever_up:
                    self._tell_lost()
                log.debug("%s link to %s not open yet: %s", self.purpose, self.address, error)
                await asyncio.sleep(pause * (0.5 + random.random()))
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            break
        if self._lost_told and self._down_since is not None:
            after = time.monotonic() - self._down_since
            log.warning("%s link to %s is back after %.1f s", self.purpose, self.address, after)
        if self._ever_up and self._down_since is not None:
            self._back_at = time.monotonic()
            self._was_down_s = self._back_at - self._down_since
        self._lost_told = False
        self._ever_up, self._down_since, self._failure = True, None, None
        self._opened.set()

    async def _open_once(self) -> None:
        node = await self._locate()
        transport = await self._dial(self.address, node)
        try:
            seat = await sign_in(transport, self.address, f"relevo-{self.purpose}")
            await self._end_last(transport)
            self._seat, self.client_id = seat, seat.client_id
            if self.address.kind == "sentinel":
                (role,) = await send(transport, command("ROLE"), 1)
                if not isinstance(role, ReplyError) and role[0] != b"master":
                    raise ConnectionLost(address=node, reason="it is a replica; waiting for the new master")
            self.capabilities = await Capabilities.probe(transport, self._tag)
            await self._load_scripts(transport)
            await self._say_opening_words(transport)
        except BaseException:
            transport.close()
            raise
        self._transport = transport
        if self.address.kind == "sentinel" and self._unfollow is None:
            self._unfollow = MasterWatch.of(self.address, self._dial).follow(self._told_master)

    def _told_master(self, master: Node) -> None:
        """Leaves a server that is the master no more, before it says so itself: what it took meanwhile would be lost."""
        transport = self._transport
        if transport is not None and not transport.closed and transport.node != master:
            log.warning("%s link to %s: the master is %s now", self.purpose, self.address, master)
            self._hint, self._turned_away = master, True
            self.drop(f"the sentinels name {master} as the master")

    async def _end_last(self, transport: Transport) -> None:
        """Ends what the server still has of our last connection: what we sent on it and nobody has read yet must not happen
        after we asked what had. A user without the right to do so lives with that chance."""
        if self._seat is not None and self._seat.client_id:
            await send(transport, command("CLIENT", "KILL", "ID", self._seat.client_id, "ADDR", self._seat.seen_as), 1)

    async def _dial(self, address: Address, node: Node) -> Transport:
        return await Transport.open(address, node, patience=self._patience)

    async def _load_scripts(self, transport: Transport) -> None:
        if not self._scripts:
            return
        loads = b"".join(command("SCRIPT", "LOAD", each.text(self.capabilities)) for each in self._scripts)
        replies = await send(transport, loads, len(self._scripts))
        refused = next((reply for reply in replies if isinstance(reply, ReplyError)), None)
        if refused is not None and refused.code != "NOPERM":
            raise refused
        # An ACL user without SCRIPT LOAD can still EVAL: the text then travels with every call.
        self._whole = refused is not None

    async def _say_opening_words(self, transport: Transport) -> None:
        """Packed commands that every new connection begins with. Whoever may not say them works all the same."""
        if self._opening_words:
            replies = await send(transport, b"".join(self._opening_words), len(self._opening_words))
            for word, reply in zip(self._opening_words, replies, strict=True):
                if isinstance(reply, ReplyError) and reply.code == "MOVED":
                    await self._say_at(_moved_to(reply, transport), word)
                elif isinstance(reply, ReplyError):
                    log.debug("%s link to %s: %s", self.purpose, self.address, reply)

    async def _say_at(self, node: Node, word: bytes) -> None:
        """An opening word about a key that another node of the cluster has."""
        try:
            async with asyncio.timeout(_ASIDE_S):
                transport = await self._dial(self.address, node)
                try:
                    await sign_in(transport, self.address, f"relevo-{self.purpose}")
                    await send(transport, word, 1)
                finally:
                    transport.close()
        except (OSError, RelevoError, ReplyError, TimeoutError) as error:
            log.debug("%s link to %s: %s", self.purpose, node, error)

    async def _locate(self) -> Node:
        if self.address.kind == "single":
            return self.address.nodes[0]
        if self._hint is not None:
            hint, self._hint = self._hint, None
            return hint
        failure: Exception | None = None
        for node in list(self._known):
            try:
                if self.address.kind == "sentinel":
                    return await self._ask_sentinel(node)
                return await self._ask_cluster(node)
            except (OSError, RelevoError, ReplyError) as error:
                failure = error
                self._known.append(self._known.pop(0))
        raise failure or ConnectionLost(address=self.address, reason="no node to ask")

    async def _ask_sentinel(self, node: Node) -> Node:
        way = self.address.sentinel()
        transport = await self._dial(way, node)
        try:
            await sign_in(transport, way, "relevo-locate")
            (found,) = await send(transport, command("SENTINEL", "get-master-addr-by-name", self.address.master), 1)
        finally:
            transport.close()
        if isinstance(found, ReplyError):
            raise found
        if not found:
            raise ConnectionLost(address=node, reason=f"the sentinel knows no master named {self.address.master!r}")
        return Node(found[0].decode(), int(found[1]))

    async def _ask_cluster(self, node: Node) -> Node:
        transport = await self._dial(self.address, node)
        try:
            await sign_in(transport, self.address, "relevo-locate")
            (ranges,) = await send(transport, command("CLUSTER", "SLOTS"), 1)
        finally:
            transport.close()
        if isinstance(ranges, ReplyError):
            raise ranges
        slot = slot_of(self._tag)
        masters = {
            (first, last): Node((master[0] or b"").decode() or node.host, master[1])
            for first, last, master, *_ in ranges
        }
        self._known = list(dict.fromkeys([*masters.values(), *self.address.nodes]))
        for (first, last), master in masters.items():
            if first <= slot <= last:
                return master
        raise ConnectionLost(address=node, reason=f"no node serves slot {slot} yet")


def _final(error: Exception) -> Exception:
    """`ServerRefused` for what a second try would meet as well: a right, a password, a database that is not there, TLS."""
    if isinstance(error, ReplyError) and error.code not in _PASSING and _FULL_HOUSE not in str(error):
        return ServerRefused(command="the sign-in", reason=str(error))
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return ServerRefused(command="the sign-in", reason=f"TLS failed: {error.reason or error}")
    return error


def _moved_to(error: ReplyError, transport: Transport) -> Node:
    host, _, port = str(error).rpartition(" ")[2].rpartition(":")
    return Node(host or transport.node.host, int(port))


def _why(failure: BaseException | None) -> str:
    """Why there is no connection. Of a lost one the reason alone: nothing was under way yet."""
    if isinstance(failure, ConnectionLost):
        return str(failure.reason)
    return str(failure) if failure else "no answer"

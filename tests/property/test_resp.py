"""Both transports: the same replies, each to the one who asked, however the bytes arrive and whoever gave up waiting."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from relevo.broker.address import Address, Node
from relevo.broker.resp import Argument, ReplyError, bulk, command, head
from relevo.broker.transport import Outcome, Transport, send
from relevo.errors import ConnectionLost
from tests.pace import limit
from tests.patience import turn
from tests.property.plain_transport import PlainTransport
from tests.servers.server import Server
from tests.support.fake_server import deliver

ON_A_SERVER = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

KINDS: dict[str, type[Transport] | type[PlainTransport]] = {"fast": Transport, "plain": PlainTransport}


@asynccontextmanager
async def _opened(kind: str, url: str) -> AsyncGenerator[Transport]:
    address = Address.parse(url)
    opened = await KINDS[kind].open(address, address.nodes[0], patience=15)
    transport = cast("Transport", opened)  # the oracle has its methods, and nothing else is used
    try:
        yield transport
    finally:
        transport.close()


def _comparable(reply: Any) -> Any:
    """Exceptions are equal only to themselves; their texts can be compared."""
    if isinstance(reply, list):
        return [_comparable(each) for each in reply]  # pyright: ignore[reportUnknownVariableType]
    return ("error", str(reply)) if isinstance(reply, ReplyError) else reply


# --- commands to bytes --------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=8), st.integers(1, 8))
def test_a_command_packed_in_parts_has_the_bytes_of_the_whole(arguments: list[bytes], first: int) -> None:
    whole = command(*arguments)
    parts = head(len(arguments), *arguments[:first]) + b"".join(bulk(each) for each in arguments[first:])
    assert parts == whole


# --- both transports on a real server -----------------------------------------------------------------------------

KEYS = st.sampled_from(["scratch:{t}a", "scratch:{t}b"])
VALUES = st.one_of(st.binary(max_size=30), st.integers(-5, 5).map(lambda number: str(number).encode()))
NESTED = "return {1, 'two', {3, {'four', {ok = 'FIVE'}}}, {err = 'MY own trouble'}, false, {}}"

Line = tuple[Argument, ...]


def line(*words: Argument | st.SearchStrategy[Argument]) -> st.SearchStrategy[Line]:
    """One command, of words as they are and words to choose."""
    return st.tuples(*(word if isinstance(word, st.SearchStrategy) else st.just(word) for word in words))


ONE_COMMAND = st.one_of(
    line("ECHO", st.binary(max_size=200)),
    line("SET", KEYS, VALUES, "EX", 100),
    line("GET", KEYS),
    line("INCR", KEYS),
    line("LPUSH", KEYS, VALUES),
    line("LRANGE", KEYS, 0, -1),
    line("XADD", KEYS, "5-*", "d", VALUES),
    line("XRANGE", KEYS, "-", "+"),
    line("XREADGROUP", "GROUP", "g", "c", "STREAMS", KEYS, ">"),
    line("NOSUCHCOMMAND", "x"),
    line("GET"),
    line("EVAL", NESTED, 0),
    line("EVAL", "return redis.error_reply('ODD very odd')", 0),
    line("EVALSHA", "0" * 40, 0),
    line("PING"),
    line("AUTH", "nobody", "wrong"),
)


def _in_transaction(lines: list[Line]) -> list[Line]:
    # Without AUTH: redis-py raises a sign-in error that is the first answer of a transaction as if it were the only one.
    return [("MULTI",), *(line for line in lines if line[0] != "AUTH"), ("EXEC",)]


PIPELINES = st.lists(
    st.one_of(st.lists(ONE_COMMAND, max_size=6), st.lists(ONE_COMMAND, max_size=4).map(_in_transaction)), max_size=4
).map(lambda parts: [line for part in parts for line in part])


async def _replies(kind: str, server: Server, pipeline: list[Line]) -> list[Any]:
    clean = command("DEL", "scratch:{t}a", "scratch:{t}b")
    async with _opened(kind, server.url) as transport:
        data = clean + b"".join(command(*line) for line in pipeline) + clean
        replies = await send(transport, data, len(pipeline) + 2)
    return [_comparable(reply) for reply in replies]


@ON_A_SERVER
@given(pipeline=PIPELINES)
@example(pipeline=[("NOSUCHCOMMAND",), ("EVALSHA", "0" * 40, 0), ("EVAL", NESTED, 0), ("MULTI",), ("GET",), ("EXEC",)])
@example(pipeline=[("AUTH", "nobody", "wrong"), ("PING",)])
@example(pipeline=[("MULTI",), ("SET", "scratch:{t}a", "x", "EX", 9), ("INCR", "scratch:{t}a"), ("EXEC",)])
async def test_both_transports_give_the_same_replies(redis7: Server, pipeline: list[Line]) -> None:
    assert await _replies("plain", redis7, pipeline) == await _replies("fast", redis7, pipeline)


@pytest.mark.parametrize("kind", KINDS)
@ON_A_SERVER
@given(
    batches=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    cancelled=st.sets(st.integers(0, 11)),
    turns=st.integers(0, 3),
)
async def test_a_caller_who_gives_up_shifts_no_reply(
    valkey: Server, kind: str, batches: list[int], cancelled: set[int], turns: int
) -> None:
    async with _opened(kind, valkey.url) as transport:

        async def ask(caller: int, size: int) -> list[Any]:
            wanted = [b"%d:%d" % (caller, each) for each in range(size)]
            assert await send(transport, b"".join(command("ECHO", each) for each in wanted), size) == wanted
            return wanted

        callers = [asyncio.create_task(ask(caller, size)) for caller, size in enumerate(batches)]
        for _ in range(turns):
            await turn()
        for caller in cancelled:
            if caller < len(callers):
                callers[caller].cancel()
        answers = await asyncio.gather(*callers, return_exceptions=True)
        left = [answer for caller, answer in enumerate(answers) if caller not in cancelled]
        assert all(isinstance(answer, list) for answer in left)
        assert await send(transport, command("ECHO", "after"), 1) == [b"after"]


@pytest.mark.parametrize("kind", KINDS)
async def test_many_senders_get_their_own_replies(valkey: Server, kind: str) -> None:
    async with _opened(kind, valkey.url) as transport:

        async def sender(number: int) -> None:
            for turn in range(20):
                token = b"%d-%d" % (number, turn) + b"x" * (number * 37 % 5000)
                assert await send(transport, command("ECHO", token) + command("PING"), 2) == [token, b"PONG"]

        await asyncio.gather(*(sender(number) for number in range(50)))


# --- bytes that arrive in pieces ----------------------------------------------------------------------------------

REPLIES = st.recursive(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.none(),
        st.binary(max_size=60),
        st.text("abcXYZ 123", min_size=1, max_size=20).map(lambda text: ReplyError(f"ERR {text}".rstrip())),
    ),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=15,
)


def _as_resp(reply: Any) -> bytes:
    if isinstance(reply, ReplyError):
        return b"-%b\r\n" % str(reply).encode()
    if isinstance(reply, list):
        items = cast("list[Any]", reply)
        return b"*%d\r\n" % len(items) + b"".join(_as_resp(item) for item in items)
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    return b"$-1\r\n" if reply is None else bulk(reply)


@asynccontextmanager
async def _unanswered() -> AsyncGenerator[Transport]:
    """A transport to a server that says nothing: the test speaks in its place, in pieces of its own choice."""
    with socket.create_server(("127.0.0.1", 0)) as listener:  # nobody accepts; the kernel connects all the same
        port: int = listener.getsockname()[1]
        address = Address.parse(f"redis://127.0.0.1:{port}")
        transport = await Transport.open(address, Node("127.0.0.1", port), patience=15)
        try:
            yield transport
        finally:
            transport.close()
            await turn()  # the socket is closed in the loop's next turn


@settings(deadline=None, max_examples=80)
@given(
    batches=st.lists(st.lists(REPLIES, min_size=1, max_size=4), min_size=1, max_size=5),
    cuts=st.lists(st.integers(1, 40), max_size=30),
)
async def test_replies_may_be_split_anywhere(batches: list[list[Any]], cuts: list[int]) -> None:
    async with _unanswered() as transport:
        answers = [asyncio.ensure_future(send(transport, command("PING") * len(each), len(each))) for each in batches]
        await turn()
        stream = b"".join(_as_resp(reply) for each in batches for reply in each)
        for size in cuts:
            deliver(transport, stream[:size])
            stream = stream[size:]
        deliver(transport, stream)
        got = await asyncio.wait_for(asyncio.gather(*answers), limit(5))
    assert [_comparable(each) for each in got] == [_comparable(each) for each in batches]


@settings(deadline=None, max_examples=40)
@given(
    batches=st.lists(st.integers(1, 3), min_size=2, max_size=6), closes=st.integers(0, 4), arrived=st.integers(0, 20)
)
async def test_everyone_is_told_once_even_when_a_callback_hangs_up(
    batches: list[int], closes: int, arrived: int
) -> None:
    told: dict[int, list[Outcome]] = {caller: [] for caller in range(len(batches))}
    async with _unanswered() as transport:
        for caller, size in enumerate(batches):

            def done(outcome: Outcome, caller: int = caller) -> None:
                told[caller].append(outcome)
                if caller == closes:
                    transport.close()

            transport.submit(command("PING") * size, size, done)
        deliver(transport, b":1\r\n" * arrived)
    assert [len(outcomes) for outcomes in told.values()] == [1] * len(batches)


@settings(deadline=None, max_examples=40)
@given(rubbish=st.binary(min_size=1, max_size=60).map(lambda data: b"\xff" + data))
async def test_bytes_that_are_no_reply_end_the_connection_with_a_reason(rubbish: bytes) -> None:
    async with _unanswered() as transport:
        answer = asyncio.ensure_future(send(transport, command("PING"), 1))
        await turn()
        deliver(transport, rubbish)
        with pytest.raises(ConnectionLost, match="is no Redis"):
            await asyncio.wait_for(answer, limit(5))
        assert transport.closed

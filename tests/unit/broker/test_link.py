"""The states of a connection (the picture in `Link`): opened by the first use, lost, opened again, refused, closed."""

import asyncio

import pytest

from relevo.broker.resp import ReplyError, command
from relevo.engine.service.leader_loop import HOLD_LOCK
from relevo.errors import ConnectionLost, Redirected, ServerRefused, Unreachable
from tests.patience import turn, until
from tests.support.fake_server import SILENCE, FakeServer


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


async def test_the_first_use_opens_it_and_the_next_finds_it_open(server: FakeServer) -> None:
    link = server.link(HOLD_LOCK)
    assert (link.up, server.sign_ins) == (False, [])
    assert [await link.call("PING") for _ in range(3)] == [b"PONG"] * 3
    assert (link.up, link.client_id != 0) == (True, True)
    assert [each[0] for each in server.sign_ins] == [b"CLIENT", b"CLIENT", b"XACKDEL", b"XREADGROUP", b"SCRIPT"]
    assert (link.capabilities.ack_delete, link.capabilities.read_claim) == (True, True)


async def test_an_older_server_is_known_by_what_it_cannot_do() -> None:
    link = FakeServer(modern=False).link()
    await link.ready()
    assert (link.capabilities.ack_delete, link.capabilities.read_claim) == (False, False)


async def test_a_lost_connection_is_opened_again_and_the_last_one_ended(server: FakeServer) -> None:
    link = server.link()
    await link.call("PING")
    first = link.client_id
    server.drop()
    assert not link.up
    assert await link.call("PING") == b"PONG"
    # What the server still has of the last connection must not happen after we asked what had.
    assert server.asked("CLIENT") == [
        [b"CLIENT", b"KILL", b"ID", b"%d" % first, b"ADDR", b"127.0.0.1:%d" % (5000 + first)]
    ]
    assert link.client_id != first


async def test_every_connection_begins_with_its_opening_words(server: FakeServer) -> None:
    """Whoever may not say them works all the same."""
    link = server.link(opening_words=[command("SET", "cap", 5)])
    await link.call("PING")
    server.drop()
    server.on["SET"] = ReplyError("NOPERM no permissions")
    assert await link.call("PING") == b"PONG"
    assert server.asked("SET", "PING") == [[b"SET", b"cap", b"5"], [b"PING"]] * 2


async def test_a_question_that_was_cut_off_is_asked_again(server: FakeServer) -> None:
    link = server.link()
    server.on["GET"] = b"1"
    await link.ready()
    server.holds = True
    asked = asyncio.ensure_future(link.call("GET", "key"))
    await until(lambda: len(server.waiting) == 1)
    server.holds = False
    server.drop()
    assert await asked == b"1"
    assert len(server.asked("GET")) == 2


async def test_an_order_that_was_cut_off_is_for_the_caller_to_judge(server: FakeServer) -> None:
    link = server.link()
    await link.ready()
    server.holds = True
    ordered = asyncio.ensure_future(link.call("SET", "key", 1))
    await until(lambda: len(server.waiting) == 1)
    server.drop()
    with pytest.raises(ConnectionLost):
        await ordered
    assert len(server.asked("SET")) == 1


async def test_flushed_scripts_are_loaded_again(server: FakeServer) -> None:
    link = server.link(HOLD_LOCK)
    replies = iter([ReplyError("NOSCRIPT No matching script"), 1])
    server.on["EVALSHA"] = lambda _: next(replies)
    assert await link.run(HOLD_LOCK, [b"lock"], "me", 5) == 1
    assert len([each for each in server.sign_ins if each[0] == b"SCRIPT"]) == 2


async def test_without_the_right_to_load_scripts_their_text_travels(server: FakeServer) -> None:
    link = server.link(HOLD_LOCK)
    server.on["SCRIPT"] = ReplyError("NOPERM no permissions")
    server.on["EVAL"] = 1
    assert await link.run(HOLD_LOCK, [b"lock"], "me", 5) == 1
    assert server.asked("EVAL")[0][1].decode() == HOLD_LOCK.text(link.capabilities)


@pytest.mark.parametrize("code", ["READONLY", "LOADING", "MASTERDOWN", "TRYAGAIN"])
async def test_what_was_not_carried_out_is_sent_again(server: FakeServer, code: str) -> None:
    link = server.link()
    replies = iter([ReplyError(f"{code} not now"), b"OK"])
    server.on["SET"] = lambda _: next(replies)
    assert await link.call("SET", "key", 1) == b"OK"
    assert len(server.asked("SET")) == 2


async def test_in_a_pipeline_the_caller_is_told_to_send_again(server: FakeServer) -> None:
    link = server.link()
    server.on["SET"] = ReplyError("READONLY You can't write against a read only replica.")
    with pytest.raises(Redirected):
        await link.send(command("GET", "a") + command("SET", "b", 1), 2)
    assert not link.up


async def test_any_other_error_is_the_servers_last_word(server: FakeServer) -> None:
    link = server.link()
    server.on["SET"] = ReplyError("WRONGTYPE of key")
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        await link.call("SET", "key", 1)
    assert link.up


async def test_a_refused_sign_in_is_told_and_tried_again_at_the_next_use(server: FakeServer) -> None:
    link = server.link()
    server.refuses = ReplyError("NOAUTH Authentication required.")
    with pytest.raises(ServerRefused, match="NOAUTH"):
        await link.ready()
    server.refuses = None
    assert await link.call("PING") == b"PONG"


async def test_a_server_that_is_away_is_waited_for(server: FakeServer) -> None:
    link = server.link()
    server.away = True
    waiting = asyncio.ensure_future(link.call("PING"))
    for _ in range(5):
        await turn()
    assert not waiting.done()
    assert link.down_for > 0
    server.away = False
    assert await waiting == b"PONG"
    assert link.down_for == 0


async def test_no_longer_than_the_caller_wants(server: FakeServer) -> None:
    link = server.link(wait=0.01)
    server.away = True
    with pytest.raises(Unreachable, match="nobody is there"):
        await link.ready()
    await link.close()


async def test_a_server_that_stays_silent_is_as_gone_as_one_that_hangs_up(server: FakeServer) -> None:
    link = server.link(patience=0.05)
    await link.ready()
    server.on["SET"] = SILENCE
    with pytest.raises(ConnectionLost, match="no reply for"):
        await link.call("SET", "key", 1)


async def test_replies_belong_to_whoever_asked_also_when_one_gave_up(server: FakeServer) -> None:
    link = server.link()
    await link.ready()
    server.on["GET"] = lambda asked: asked[1]
    server.holds = True
    asked = [asyncio.ensure_future(link.call("GET", name)) for name in "abc"]
    await until(lambda: len(server.waiting) == 3)
    asked[1].cancel()
    server.let_go(3)
    assert [await asked[0], await asked[2]] == [b"a", b"c"]


async def test_a_closed_link_stays_closed(server: FakeServer) -> None:
    link = server.link()
    await link.call("PING")
    await link.close()
    with pytest.raises(ConnectionLost, match="closed by us"):
        await link.call("PING")
    assert (link.up, link.closed) == (False, True)

"""A server that loads its data, or hands over, refuses for a moment: who asks waits, and does not hear of it."""

from relevo.broker.resp import ReplyError
from relevo.engine.admin.job_pages import Jobs
from relevo.engine.admin.progress import JobProgress
from relevo.wire.envelope import Envelope
from tests.support.fake_server import KEYS, Answer, Command, FakeServer

LOADING = ReplyError("LOADING Redis is loading the dataset in memory")


def refused_once(then: object) -> Answer:
    replies = iter([LOADING, then])
    return lambda _: next(replies)  # pyright: ignore[reportReturnType] - a reply, as the server gives it


async def test_a_job_is_found_all_the_same() -> None:
    """`wait_for_result` looks for the job, and raised `Redirected … LOADING` to its caller."""
    server = FakeServer()
    entry = [b"1-0", [b"d", Envelope("one", b"\xc0", 1, 0).encode(), b"n", b"send"], b""]
    server.on["EVALSHA"] = [[entry], b"", [], b"", [], b"", 0, [], b"", None]
    server.on["GET"], server.on["PTTL"] = b"1000", refused_once(400)
    found = await Jobs(server.link(), KEYS, "default").find("one")
    assert (found.state, found.refused_s) == ("waiting", 0.6)


async def test_a_line_of_a_running_job_is_logged_all_the_same() -> None:
    server = FakeServer()
    lines: list[bytes] = []

    def add(command: Command) -> bytes:
        lines.append(command[-1])
        return b"1-0"

    server.on |= {"XADD": add, "EXPIRE": refused_once(1), "XLEN": 7}
    assert await JobProgress(server.link(), KEYS, ttl_s=60).log("one", "half way") == 7
    assert set(lines) == {b"half way"}

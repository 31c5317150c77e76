"""The limiter outlives answers that it does not understand."""

import time

from relevo.engine.consuming.queue_limiter import ACQUIRE, QueueLimiter
from relevo.engine.consuming.run_queue import RunQueue
from relevo.engine.settling.delivery import Delivery
from relevo.wire.envelope import Envelope
from tests.patience import until
from tests.support.fake_server import KEYS, FakeServer


async def test_an_answer_that_makes_no_sense_does_not_end_it() -> None:
    server, queue = FakeServer(), RunQueue(3, limited=True)
    server.on["EVALSHA"] = b"what?"
    limiter = QueueLimiter(server.link(ACQUIRE), KEYS, queue, rate=1, per_ms=1000, burst=0, at_once=0, hold_s=30)
    limiter.start()
    queue.put([Delivery(b"1-0", Envelope("one", b"\xc0", 1, 0), "job", 0, time.monotonic())])
    await until(lambda: limiter.trouble is not None)
    server.on["EVALSHA"] = [1, 0, b""]
    await until(lambda: len(queue.line) == 1)
    assert limiter.trouble is None
    await limiter.stop()

"""The line between reader, limiter and runner."""

import pytest

from relevo.engine.consuming.run_queue import Demand, RunQueue
from relevo.engine.settling.delivery import Delivery
from relevo.wire.envelope import Envelope


def some(count: int) -> list[Delivery]:
    return [Delivery(b"%d-0" % at, Envelope(str(at), b"\xc0", 0), "job", 0, 0.0) for at in range(count)]


async def test_what_is_put_may_start_and_wakes_one_slot() -> None:
    queue = RunQueue(10)
    parked = [queue.park(), queue.park()]
    queue.put(some(3))
    queue.put(some(2))
    assert (len(queue.line), [each.done() for each in parked]) == (5, [True, False])


async def test_when_the_slot_has_looked_the_next_is_woken() -> None:
    queue = RunQueue(10)
    parked = [queue.park(), queue.park()]
    queue.put(some(1))
    queue.attend()
    queue.put(some(1))
    assert [each.done() for each in parked] == [True, True]


async def test_a_parked_slot_that_was_cancelled_is_passed_over() -> None:
    queue = RunQueue(10)
    gone, there = queue.park(), queue.park()
    gone.cancel()
    assert queue.wake(2) == 1
    assert there.done()
    assert queue.attended


async def test_a_limited_queue_waits_for_permits() -> None:
    queue = RunQueue(2, limited=True)
    parked = queue.park()
    queue.stirred.clear()
    queue.put(some(3))
    assert (len(queue.waiting), len(queue.line), queue.stirred.is_set(), parked.done()) == (3, 0, True, False)
    queue.let_in([queue.waiting.popleft()])
    assert (queue.free, len(queue.line), parked.done()) == (1, 1, True)


async def test_what_comes_during_a_pause_is_set_aside_and_runs_after_it() -> None:
    queue = RunQueue(10)
    queue.pause()
    queue.put(some(2))
    assert (len(queue.line), queue.set_aside.last) == (0, 2)
    queue.resume()
    assert (len(queue.line), queue.room.is_set()) == (2, True)


@pytest.mark.parametrize("limited", [True, False])
async def test_everything_that_has_not_started_can_be_handed_back(limited: bool) -> None:
    queue = RunQueue(10, limited=limited)
    first, second = some(2)
    queue.put([first])
    queue.pause()
    queue.put([second])
    assert queue.take_unstarted() == [first, second]
    assert queue.take_unstarted() == []


async def test_a_slot_with_nothing_to_do_makes_room() -> None:
    queue = RunQueue(10)
    queue.park()
    assert queue.room.is_set()


async def test_the_rate_is_of_jobs_that_finished_not_of_those_that_were_handed_back() -> None:
    queue = RunQueue(10)
    queue.put(some(6))
    for _ in range(2):
        queue.line.popleft()  # started and finished
    queue.take_unstarted()
    while not queue.demand().rate:  # it is taken over ten milliseconds
        pass
    assert 0 < queue.demand().rate <= 2 / 0.01


def test_a_free_slot_is_worth_a_small_read_and_a_full_line_is_not() -> None:
    assert Demand(free=3, waiting=0, rate=0).wanted(512) == 3
    assert Demand(free=0, waiting=0, rate=0).wanted(512) == 0
    assert Demand(free=3, waiting=1, rate=0).wanted(512) == 0


def test_fast_handlers_get_what_they_finish_in_a_tenth_of_a_second() -> None:
    assert Demand(free=10, waiting=0, rate=1000).wanted(512) == 110
    assert Demand(free=10, waiting=100, rate=10_000).wanted(512) == 512

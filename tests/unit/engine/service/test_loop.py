"""Signals and loops: what every background duty stands on."""

import asyncio
import logging

import pytest

from relevo.engine.service.loop import AGAIN, Loop
from relevo.engine.service.signals import Signal
from relevo.errors import ServerRefused
from tests.patience import turn


async def test_a_wait_gets_the_next_value_it_wants() -> None:
    signal = Signal[int]()
    waiting = asyncio.ensure_future(signal.wait_for(lambda value: value > 1))
    await turn()
    for value in (0, 1, 2, 3):
        signal.emit(value)
    assert await waiting == 2
    assert (signal.count, signal.last) == (4, 3)


async def test_a_wait_in_vain_ends_and_leaves_no_listener() -> None:
    signal = Signal[int]()
    with pytest.raises(TimeoutError):
        await signal.wait_for(timeout=0.01)
    signal.emit(1)  # a listener left behind would set a dead future here and be logged
    assert signal.count == 1


async def test_one_emit_wakes_all_waits() -> None:
    signal = Signal[int]()
    waits = [asyncio.ensure_future(signal.wait_for()) for _ in range(3)]
    await turn()
    signal.emit(7)
    assert await asyncio.gather(*waits) == [7, 7, 7]


def test_a_listener_hears_until_it_is_stopped() -> None:
    signal, heard = Signal[int](), list[int]()
    stop = signal.listen(heard.append)
    signal.emit(1)
    stop()
    stop()
    signal.emit(2)
    assert heard == [1]


def test_a_listener_that_fails_keeps_nobody_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    signal, heard = Signal[int](), list[int]()
    signal.listen(no_good)
    signal.listen(heard.append)
    with caplog.at_level(logging.ERROR, "relevo.loop"):
        signal.emit(1)
    assert heard == [1]
    assert "listener" in caplog.text


def no_good(value: int) -> None:
    raise ValueError(value)


class Duty(Loop):
    """Ticks as told: each tick takes the next thing from `script`, and waits `every` when nothing is left."""

    def __init__(self, *script: float | Exception | None, every: float = 60.0) -> None:
        super().__init__("duty", every=every)
        self.script = list(script)
        self.ticked: Signal[int] = Signal()
        self.finished = 0

    async def tick(self) -> float | None:
        self.ticked.emit(len(self.script))
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        return step

    async def finish(self) -> None:
        self.finished += 1


async def test_a_duty_ticks_at_once_when_it_left_work_behind() -> None:
    duty = Duty(AGAIN, AGAIN, AGAIN)
    done = asyncio.ensure_future(duty.ticked.wait_for(lambda left: left == 0))
    await turn()
    duty.start()
    await done
    await duty.stop()
    assert (duty.ticked.count, duty.finished) == (4, 1)


async def test_a_duty_waits_between_ticks_and_can_be_woken() -> None:
    duty = Duty()
    first = asyncio.ensure_future(duty.ticked.wait_for())
    await turn()
    duty.start()
    await first
    second = asyncio.ensure_future(duty.ticked.wait_for())
    await turn()
    duty.wake()
    await second
    await duty.stop()
    assert duty.ticked.count == 2


@pytest.mark.parametrize("error", [ServerRefused(command="x", reason="y"), OSError("gone"), KeyError("a bug")])
async def test_a_duty_outlives_a_tick_that_fails(error: Exception) -> None:
    duty = Duty(error, AGAIN)
    failed = asyncio.ensure_future(duty.failed.wait_for())
    went_on = asyncio.ensure_future(duty.ticked.wait_for(lambda left: left == 0))
    await turn()
    duty.start()
    assert await failed is error
    await went_on
    await duty.stop()


async def test_a_wait_that_is_cancelled_as_its_value_comes_is_cancelled() -> None:
    signal = Signal[int]()
    waiting = asyncio.ensure_future(signal.wait_for())
    await turn()
    signal.emit(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_duty_that_was_stopped_ticks_no_more_and_finishes_once() -> None:
    duty = Duty(*([0.001] * 1000))
    ticked = asyncio.ensure_future(duty.ticked.wait_for())
    await turn()
    duty.start()
    duty.start()
    await ticked
    await duty.stop()
    await duty.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}  # nobody is left who could tick
    assert duty.finished == 1


async def test_a_duty_that_never_began_can_be_stopped() -> None:
    await Duty().stop()

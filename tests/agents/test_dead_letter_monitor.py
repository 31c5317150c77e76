"""A warning when dead letters grow."""

import logging

import pytest

from relevo.agents.dead_letter_monitor import DeadLetterMonitor
from tests.support.desk import Desk


async def test_new_dead_letters_are_warned_of_with_fields_to_alert_on(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.queue()
    await desk.queue("other")
    await desk.die(3)
    await desk.die(1, "other")
    with caplog.at_level(logging.WARNING, "relevo.work.dead_letters.listing"):
        assert (await DeadLetterMonitor(desk.work_queues).work()).items == 4
    told = {(record.__dict__["queue"], record.__dict__["grown"], record.__dict__["total"]) for record in caplog.records}
    assert told == {("jobs", 3, 4), ("other", 1, 4)}
    assert {record.__dict__["event"] for record in caplog.records} == {"dead_letters_grew"}


async def test_dead_letters_that_were_told_of_are_not_told_of_again(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.queue()
    await desk.die(3)
    desk.clock.turn(minutes=2)
    assert (await DeadLetterMonitor(desk.work_queues).work()).items == 0
    assert caplog.records == []

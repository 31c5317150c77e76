import asyncio
import io
import json
import logging
import threading
from collections.abc import Generator
from typing import Any

import pytest

from relevo import logs
from relevo.engine.consuming.job_context import DELIVERY, QUEUE, here
from relevo.engine.settling.delivery import Delivery
from relevo.errors import BadArgument
from relevo.wire.envelope import Envelope

APP = logging.getLogger("app")


@pytest.fixture
def written() -> Generator[io.StringIO]:
    """What is logged as JSON in this test."""
    stream = io.StringIO()
    root = logging.getLogger()
    level = root.level
    handler = logs.configure(json=True, level="INFO", stream=stream)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def work_on(job_id: str) -> None:
    QUEUE.set("emails")
    DELIVERY.set(Delivery(b"1-0", Envelope(job_id, b"", 0, 2), "welcome", 0, 0.0))


async def test_a_record_of_a_handler_says_which_job_it_is_for(written: io.StringIO) -> None:
    work_on("01J9")
    APP.info("sent to %s", "ada")
    (line,) = lines(written)
    assert {key: line[key] for key in ("message", "level", "logger", "queue", "job_id", "job_name", "attempt")} == {
        "message": "sent to ada",
        "level": "info",
        "logger": "app",
        "queue": "emails",
        "job_id": "01J9",
        "job_name": "welcome",
        "attempt": 3,
    }


async def test_tasks_and_threads_that_a_handler_begins_belong_to_its_job(written: io.StringIO) -> None:
    async def task() -> None:
        APP.info("task")

    work_on("01J9")
    begun = asyncio.create_task(task())
    thread = threading.Thread(target=here(lambda: APP.info("thread")))
    work_on("another")
    await begun
    thread.start()
    thread.join()
    assert {line["message"]: line["job_id"] for line in lines(written)} == {"task": "01J9", "thread": "01J9"}


def test_a_record_of_no_job_names_none(written: io.StringIO) -> None:
    APP.info("hello")
    assert "job_id" not in lines(written)[0]


def test_a_record_is_one_line_whatever_is_in_it(written: io.StringIO) -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError("shy")

    try:
        raise ValueError("two\nlines")
    except ValueError:
        APP.exception("bad\nnews", extra={"odd": Odd(), "raw": b"\xff"})
    (line,) = lines(written)
    assert line["message"] == "bad\nnews"
    assert line["error"].endswith("ValueError: two\nlines")
    assert "cannot be shown" in line["odd"]


@pytest.mark.parametrize("json_lines", [True, False])
def test_passwords_of_urls_are_never_written(json_lines: bool) -> None:
    stream = io.StringIO()
    handler = logs.configure(json=json_lines, stream=stream)
    try:
        raise ConnectionError("rediss://:hunter2@db:6380 is away")
    except ConnectionError:
        APP.exception("postgresql://app:hunter2@db/shop", extra={"url": ["redis://me:hunter2@db"]})
    finally:
        logging.getLogger().removeHandler(handler)
    assert "***" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize("name", ["password", "api_key", "apikey", "access_token", "Authorization", "client_secret"])
def test_fields_that_are_named_like_secrets_are_hidden_at_any_depth(written: io.StringIO, name: str) -> None:
    APP.info("hello", extra={name: "hunter2", "request": {"headers": {name: "hunter2"}}})
    (line,) = lines(written)
    assert (line[name], line["request"]) == ("***", {"headers": {name: "***"}})


def test_lines_for_people_name_the_job_behind_the_message() -> None:
    record = logging.makeLogRecord({"name": "app", "levelname": "INFO", "msg": "sent"})
    vars(record).update(queue="emails", job_id="01J9", job_name="welcome", attempt=1)
    assert logs.TextFormatter().format(record).endswith("app: sent [emails/welcome 01J9 attempt 1]")


def test_configuring_again_replaces_what_was_configured_and_nothing_else(written: io.StringIO) -> None:
    root, foreign, second = logging.getLogger(), logging.NullHandler(), io.StringIO()
    root.addHandler(foreign)
    handler = logs.configure(level="info", stream=second)
    APP.info("hello")
    kept = foreign in root.handlers
    root.removeHandler(foreign)
    root.removeHandler(handler)
    assert (kept, len(lines(written)), len(lines(second))) == (True, 0, 1)


def test_a_level_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadArgument, match=r"LOUD.*Use one of DEBUG, INFO"):
        logs.configure(level="LOUD")

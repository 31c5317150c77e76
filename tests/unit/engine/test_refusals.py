"""What cannot work is refused where it is written, with the value and the remedy; nothing of this reaches a server."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from relevo import Batch, DeadLetterFilter, Dedup, Flow, Job, Queue, QueueEvents, RateLimited, Tasks, Worker
from relevo.client import Client
from relevo.errors import BadArgument, BadUrl, RelevoError, Unauthenticated, WrongType

NAIVE = datetime(2030, 1, 1, 12)  # noqa: DTZ001 - without a time zone on purpose
INFINITE, NOT_A_NUMBER = float("inf"), float("nan")

AnyTasks: Any = Tasks
AnyFlow: Any = Flow
AnyClient: Any = Client
made: Any = AnyTasks()


@made.task()
async def send(to: str) -> None: ...


async def handle(job: Job) -> None: ...


async def takes_nothing() -> None: ...


async def takes_two(job: Job, other: int) -> None: ...


async def takes_named(job: Job, *, other: int) -> None: ...


def plain_and_takes_nothing() -> None: ...


class Handler:
    async def __call__(self, job: Job) -> None: ...


async def resources() -> AsyncGenerator[int]:
    yield 1


def worker(handler: Any = handle, **options: Any) -> Worker:
    return Worker("q", handler, **options)


def queue(**options: Any) -> Queue:
    return Queue("q", **options)


REFUSED: dict[str, tuple[Callable[[], object], type[RelevoError], str]] = {
    "no attempts of a task": (lambda: made.task(attempts=0)(handle), BadArgument, "attempts=0 .* Pass 1"),
    "no attempts of a worker": (lambda: worker(max_attempts=0), BadArgument, "max_attempts=0 .* at least 1"),
    "no concurrency": (lambda: worker(concurrency=0), BadArgument, "concurrency=0 .* at least 1"),
    "a flag as a number": (lambda: worker(concurrency=True), WrongType, "concurrency=True: expected int, got bool"),
    "no url": (lambda: queue(redis_url=None), WrongType, "redis_url=None: expected str, got None.*leave it out"),
    "no url of a worker": (lambda: worker(redis_url=None), WrongType, "redis_url=None"),
    "a blank url": (lambda: queue(redis_url=" "), BadUrl, "it is blank"),
    "a task": (lambda: worker(send), BadArgument, "handler='send' .* it is a task. Pass the `Tasks` object"),
    "a class": (lambda: worker(Handler), BadArgument, r"handler='Handler' .* class. Pass an instance: `Handler\("),
    "the class Tasks": (lambda: worker(Tasks), BadArgument, "class"),
    "no parameter": (lambda: worker(takes_nothing), BadArgument, "'takes_nothing' .* one parameter, the job"),
    "no parameter of a plain one": (lambda: worker(plain_and_takes_nothing), BadArgument, "one parameter"),
    "two parameters": (lambda: worker(takes_two), BadArgument, "'takes_two' .* 'other'.* one parameter"),
    "a required keyword": (lambda: worker(takes_named), BadArgument, "'takes_named' .* 'other'"),
    "no function": (lambda: worker(5), WrongType, "handler=5: expected a function"),
    "a batch of nothing": (lambda: Batch(takes_nothing, size=2), BadArgument, "a list of jobs"),  # pyright: ignore[reportArgumentType]
    "a batch class": (lambda: Batch(Handler, size=2), BadArgument, "class"),  # pyright: ignore[reportArgumentType]
    "a blank group": (lambda: worker(group=" "), BadArgument, "group=' ' .* blank"),
    "a blank consumer": (lambda: worker(consumer_id=""), BadArgument, "consumer_id='' .* blank"),
    "a number as group": (lambda: worker(group=7), WrongType, "group=7: expected str"),
    "a blank group of a queue": (lambda: queue(consumer_group=""), BadArgument, "consumer_group=''"),
    "no bytes": (lambda: queue(max_payload_bytes=0), BadArgument, "max_payload_bytes=0"),
    "no time at all": (lambda: worker(job_timeout_s=0), BadArgument, "job_timeout_s=0 .* greater than 0"),
    "negative time": (lambda: worker(job_timeout_s=-1), BadArgument, "job_timeout_s=-1"),
    "no number as time": (lambda: worker(job_timeout_s=NOT_A_NUMBER), BadArgument, "job_timeout_s=nan"),
    "endless time": (lambda: worker(job_timeout_s=INFINITE), BadArgument, "job_timeout_s=inf .* at most"),
    "a flag as time": (lambda: worker(job_timeout_s=True), WrongType, "job_timeout_s=True.* got bool"),
    "text as time": (lambda: worker(job_timeout_s="5"), WrongType, "job_timeout_s='5'.* got str"),
    "a negative deadline": (lambda: worker(shutdown_deadline_s=-1), BadArgument, "shutdown_deadline_s=-1"),
    "a negative wait": (lambda: queue(wait_s=-1), BadArgument, "wait_s=-1"),
    "a cap of nothing": (lambda: queue(max_stream_len=0), BadArgument, "max_stream_len=0"),
    "a cap of nothing for a worker": (lambda: worker(max_stream_len=0), BadArgument, "max_stream_len=0"),
    "events of no queue": (lambda: QueueEvents(""), BadArgument, "''"),
    "events of a tag": (lambda: QueueEvents("a{b}"), BadArgument, "a{b}"),
    "events of a number": (lambda: QueueEvents(5), WrongType, "5"),  # pyright: ignore[reportArgumentType]
    "a task without time": (lambda: made.task(timeout_s=0)(handle), BadArgument, "timeout_s=0"),
    "a task with no number": (lambda: made.task(timeout_s=NOT_A_NUMBER)(handle), BadArgument, "timeout_s=nan"),
    "a lifespan called": (lambda: AnyTasks(resources()), WrongType, "lifespan=.* Pass the function itself"),
    "a bare generator": (lambda: AnyTasks(resources), BadArgument, "lifespan=.* `@contextlib.asynccontextmanager`"),
    "no processes": (lambda: AnyTasks(processes=0), BadArgument, "processes=0"),
    "no queue": (lambda: send.enqueue("ada"), WrongType, r"queue='ada'.* Pass the queue first.*`send.enqueue\(queue"),
    "one reason": (lambda: DeadLetterFilter(reasons="stalled"), WrongType, r"reasons='stalled'.* Pass \['stalled'\]"),
    "one name": (lambda: DeadLetterFilter(names="send"), WrongType, "names='send'"),
    "ids of numbers": (lambda: DeadLetterFilter(job_ids=[1]), WrongType, "job_ids element=1"),  # pyright: ignore[reportArgumentType]
    "since a datetime": (lambda: DeadLetterFilter(since_ms=NAIVE), WrongType, r"since_ms=.*timestamp\(\)"),  # pyright: ignore[reportArgumentType]
    "until a flag": (lambda: DeadLetterFilter(until_ms=True), WrongType, "until_ms=True"),
    "later, some time": (
        lambda: RateLimited(until=NAIVE),
        BadArgument,
        r"until=.* no time zone. Use datetime.now\(UTC\)",
    ),
    "later by no number": (lambda: RateLimited(retry_after_s=NOT_A_NUMBER), BadArgument, "retry_after_s=nan"),
    "later for ever": (lambda: RateLimited(retry_after_s=INFINITE), BadArgument, "retry_after_s=inf"),
    "later by text": (lambda: RateLimited(retry_after_s="5"), WrongType, "retry_after_s='5'"),  # pyright: ignore[reportArgumentType]
    "throttled by a number": (lambda: Dedup.throttle("k", 5), WrongType, "every=5: expected timedelta"),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_at_the_call(case: str) -> None:
    call, kind, said = REFUSED[case]
    with pytest.raises(kind, match=said):
        call()


ADDS: dict[str, tuple[dict[str, Any], type[RelevoError], str]] = {
    "no attempts": ({"attempts": 0}, BadArgument, "attempts=0 .* Pass 1 for a single run"),
    "a flag as attempts": ({"attempts": True}, WrongType, "attempts=True"),
    "a naive datetime": ({"delay_ms": NAIVE}, BadArgument, r"delay_ms=.* no time zone. .*\.astimezone\(\)"),
    "no number": ({"delay_ms": NOT_A_NUMBER}, BadArgument, "delay_ms=nan"),
    "negative": ({"delay_ms": -1}, BadArgument, "delay_ms=-1"),
    "huge": ({"delay_ms": 1e300}, BadArgument, r"delay_ms=1e\+300"),
    "the longest timedelta": ({"delay": timedelta.max}, BadArgument, "delay="),
    "a number as timedelta": ({"delay": 5}, WrongType, "delay=5"),
}


@pytest.mark.parametrize("case", ADDS)
async def test_an_add_is_refused_before_anything_is_sent(case: str) -> None:
    options, kind, said = ADDS[case]
    async with queue(max_delay_secs=0, redis_url="redis://127.0.0.1:1") as nowhere:
        with pytest.raises(kind, match=said):
            await nowhere.add("send", 1, **options)
        with pytest.raises(kind, match=said):
            await nowhere.add_bulk([{"name": "send", "data": 1, **options}])


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([{"name": "a", "data": 1, "delay_sm": 5}], r"jobs\[0\]=.* unknown 'delay_sm'. Did you mean 'delay_ms'\?"),
        ([{"name": "a", "data": 1}, {"name": "b", "data": 1, "zzz": 5}], r"jobs\[1\]=.* unknown 'zzz'. Use attempts, "),
        ([{"name": "a"}], r"jobs\[0\]=.* no 'data'. Add 'data'"),
        ([{"data": 1}], r"jobs\[0\]=.* no 'name'"),
        ({"name": "a", "data": 1}, "jobs=.* expected a list of dicts, got dict"),
        ((each for each in "ab"), "jobs=.* expected a list of dicts, got generator"),
    ],
)
async def test_a_bulk_names_what_is_wrong_in_it(jobs: Any, said: str) -> None:
    async with queue(redis_url="redis://127.0.0.1:1") as nowhere:
        with pytest.raises((BadArgument, WrongType), match=said):
            await nowhere.add_bulk(jobs)


async def test_other_calls_of_a_queue_refuse_too() -> None:
    async with queue(redis_url="redis://127.0.0.1:1") as nowhere:
        with pytest.raises(BadArgument, match="attempts=0"):
            await nowhere.upsert_repeatable_job("send", 1, repeat={"kind": "every", "interval_ms": 1000}, attempts=0)
        with pytest.raises(WrongType, match="job_ids='one'"):
            await nowhere.get_job_result_bulk("one")
        with pytest.raises(WrongType, match="reasons='stalled'"):
            await nowhere.replay_dlq(reasons="stalled")
        with pytest.raises(BadArgument, match="timeout=nan"):
            await nowhere.wait_for_result("one", timeout=NOT_A_NUMBER)


CALLS: dict[str, Callable[[Any], Any]] = {
    "limit='5'": lambda queue: queue.get_jobs("waiting", limit="5"),
    "offset=None": lambda queue: queue.get_jobs("waiting", offset=None),
    "limit=True": lambda queue: queue.get_jobs_page("waiting", limit=True),
    "grace_ms='0'": lambda queue: queue.clean("0", 10),
    "limit=1.5": lambda queue: queue.clean(0, 1.5),
    "delayed='no'": lambda queue: queue.drain(delayed="no"),
    "force='no'": lambda queue: queue.obliterate(force="no"),
    "start='0'": lambda queue: queue.get_job_logs("one", start="0"),
    "end=None": lambda queue: queue.get_job_logs("one", end=None),
    "job_id=5": lambda queue: queue.get_job_result(5),
    "flow={}": lambda queue: queue.start_flow({}),
    "limit=5": lambda queue: queue.lanes.limit("tenant", 5),
    "lane=5": lambda queue: queue.lanes.state(5),
    "dedup='key'": lambda queue: queue.add("send", 1, dedup="key"),
    "key=5": lambda queue: queue.remove_repeatable_by_key(5),
    "key=None": lambda queue: queue.run_repeatable_now(None),
    "key=b'one'": lambda queue: queue.repeatables.pause_repeatable(b"one"),
    "key=7": lambda queue: queue.repeatables.resume(7),
    "limit='100'": lambda queue: queue.get_repeatable_jobs("100"),
}


@pytest.mark.parametrize("said", CALLS)
async def test_a_call_with_a_wrong_argument_is_refused_before_it_is_sent(said: str) -> None:
    async with queue(redis_url="redis://127.0.0.1:1", wait_s=0) as nowhere:
        with pytest.raises((BadArgument, WrongType), match=re.escape(said)):
            await CALLS[said](nowhere)


FLOWS: dict[str, Callable[[Any], Any]] = {
    "name=5: expected str": lambda flow: flow.add(5, 1),
    "name=None: expected str, got None. Pass the name of a job and its data, or a call": lambda flow: flow.add(None),
    "key=5": lambda flow: flow.add("one", 1, key=5),
    "after='one': expected a list of str or After, got str. Pass ['one']": lambda flow: flow.add("two", 1, after="one"),
    "after=5": lambda flow: flow.add("two", 1, after=5),
    "after element=5": lambda flow: flow.add("two", 1, after=[5]),
    "attempts=0": lambda flow: flow.add("two", 1, attempts=0),
    "backoff='soon'": lambda flow: flow.add("two", 1, backoff="soon"),
}


@pytest.mark.parametrize("said", FLOWS)
def test_a_flow_refuses_where_a_job_is_added(said: str) -> None:
    with pytest.raises((BadArgument, WrongType), match=re.escape(said)):
        FLOWS[said](Flow())


def test_a_task_in_the_place_of_its_call_is_told_so() -> None:
    with pytest.raises(WrongType, match=r"`task\.call\(\.\.\.\)`"):
        AnyFlow().add(send, key="one")


@pytest.mark.parametrize("url", ["127.0.0.1:6391", "redis://127.0.0.1:6390"])
def test_an_address_that_is_none_of_http_is_refused_before_a_call_waits_for_it(url: str) -> None:
    with pytest.raises(BadArgument, match="Write http:// or https:// before it"):
        Client(url, key="k")


def test_a_key_may_have_the_line_end_of_its_file_and_no_error_shows_one() -> None:
    Client("http://127.0.0.1:1", key="rlv_secret\n").close()
    for key in ("rlv_secret and more", "rlv_s\u00e9cret", b"rlv_secret"):
        with pytest.raises(BadArgument, match="key=") as refused:
            AnyClient("http://127.0.0.1:1", key=key)
        assert "cret" not in str(refused.value)


def test_a_client_without_a_key_is_told_where_keys_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELEVO_KEY", raising=False)
    with pytest.raises(Unauthenticated, match="set RELEVO_KEY"):
        Client("http://127.0.0.1:1")


def test_an_address_as_bytes_does_not_show_its_password() -> None:
    with pytest.raises(BadUrl, match="expected str, got bytes") as refused:
        queue(redis_url=b"redis://:secret@10.0.0.7")
    assert "secret" not in str(refused.value)


def test_what_may_work_is_taken() -> None:
    @asynccontextmanager
    async def pool() -> AsyncGenerator[int]:
        yield 1

    async def with_default(job: Job, verbose: bool = False) -> None: ...

    for handler in (handle, Handler(), with_default, made, Batch(lambda jobs: handle(jobs[0]), size=2), print):  # pyright: ignore[reportArgumentType, reportUnknownLambdaType, reportUnknownMemberType]
        worker(handler)
    Tasks(pool)
    queue(wait_s=0)
    RateLimited(until=datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=2))))
    assert RateLimited(retry_after_s=-0.5).wait_ms == 0  # it has passed meanwhile

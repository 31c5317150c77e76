"""Messages that are jobs of stream queues: they get there once, their outcome comes back, whoever is killed in between."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from relevo.agents.stream_bridge import StreamBridge
from relevo.contract.messages import Published
from relevo.engine.job.job import Job
from relevo.engine.queue import Queue
from relevo.engine.worker import Worker
from relevo.errors import ReplayLoop, StreamQueueClosed, UnrecoverableError
from relevo.work.faults import arm
from relevo.work.message.failure import failure_of
from relevo.work.routing.rule import Escalate, Route
from tests.clock import Clock
from tests.patience import until
from tests.routing.test_triggers import Killed, die
from tests.servers.server import Server
from tests.support.desk import SCOPE, Desk

Handler = Callable[[Job], Awaitable[Any]]


@pytest.fixture
def desk(bridge_desk: Desk) -> Desk:
    return bridge_desk


class Crew:
    """Workers of a stream queue, for as long as a test wants them."""

    def __init__(self, name: str, url: str) -> None:
        self._name, self._url = name, url

    async def run(self, handler: Handler, until_done: Callable[[], Awaitable[bool]]) -> None:
        worker = Worker(self._name, handler, redis_url=self._url, max_attempts=1, store_results=True)
        working = asyncio.create_task(worker.run(handle_signals=False))
        try:
            await until(until_done, timeout=40)
        finally:
            worker.close()
            await working


@pytest.fixture
def crew(queue_name: str, valkey: Server) -> Crew:
    return Crew(queue_name, valkey.url)


async def state_after(desk: Desk, bridge: StreamBridge, message_id: str) -> str:
    await bridge.work()
    return (await desk.row(message_id))["state"]


async def refuse(job: Job) -> None:
    raise UnrecoverableError("the address is wrong")


async def test_a_message_becomes_a_job_and_its_result_comes_back(desk: Desk, queue_name: str, crew: Crew) -> None:
    await desk.rule(Route(stream_queue=queue_name, job_name="send"))
    outcome = await desk.put({"to": "ada"}, correlation_id="c1", labels={"subject": "42"})
    assert isinstance(outcome, Published)
    assert outcome.state == "claimed"
    assert await desk.claim() == []
    seen: list[Job] = []

    async def send(job: Job) -> dict[str, int]:
        seen.append(job)
        return {"sent": 1}

    bridge = StreamBridge(desk.work_queues)

    async def completed() -> bool:
        return await state_after(desk, bridge, outcome.id) == "completed"

    await crew.run(send, completed)
    assert [(job.id, job.name) for job in seen] == [(outcome.id, "send")]
    assert seen[0].data["body"] == {"to": "ada"}
    assert (seen[0].data["correlation_id"], seen[0].data["labels"]) == ("c1", {"subject": "42"})
    row = await desk.row(outcome.id)
    assert (msgspec.json.decode(row["result"]), row["attempts"]) == ({"sent": 1}, 1)
    depth = await desk.depth()
    assert (depth.pending, depth.claimed) == (0, 0)


async def test_a_failed_job_is_tried_again_and_then_a_dead_letter(desk: Desk, queue_name: str, crew: Crew) -> None:
    await desk.rule(Route(stream_queue=queue_name))
    message_id, bridge = await desk.id_of(1), StreamBridge(desk.work_queues)
    seen: list[str] = []

    async def fail(job: Job) -> None:
        seen.append(job.id)
        await refuse(job)

    async def dead() -> bool:
        return await state_after(desk, bridge, message_id) == "dead"

    await crew.run(fail, dead)
    assert seen == [message_id, f"{message_id}.2"], "each try is a job of its own"
    row = await desk.row(message_id)
    assert (row["attempts"], row["failure_reason"]) == (2, "relevo.errors.UnrecoverableError: the address is wrong")
    error = failure_of(row["error"])
    assert error is not None
    assert error.stack is not None
    assert (error.type, error.message) == ("relevo.errors.UnrecoverableError", "the address is wrong")
    assert error.text == row["failure_reason"]
    assert "in refuse" in error.stack, "the job's own traceback comes along"
    assert (await desk.history(message_id))[-2:] == ["failed", "dead_lettered"]
    depth = await desk.depth()
    assert (depth.claimed, (await desk.depth("_dead_letter")).dead) == (0, 1)
    assert await desk.work_queues.streams.get(queue_name).dead_letters.count() == 0, "one thing has one dead letter"


async def test_why_a_job_failed_is_known_when_its_death_is_told_a_look_later(
    desk: Desk, queue_name: str, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker tells of the failure first, and of the dead letter once Redis has it: a look may fall between the two."""
    monkeypatch.setattr("relevo.agents.stream_bridge._PAGE", 1)
    await desk.rule(Route(stream_queue=queue_name))
    message_id, bridge = await desk.id_of(1), StreamBridge(desk.work_queues)

    async def dead() -> bool:
        return await state_after(desk, bridge, message_id) == "dead"

    await crew.run(refuse, dead)
    row = await desk.row(message_id)
    assert row["failure_reason"] == "relevo.errors.UnrecoverableError: the address is wrong"


@pytest.mark.parametrize("point", ["bridge.added", "bridge.heard", "bridge.settled"])
async def test_a_kill_of_the_bridge_loses_and_doubles_nothing(
    desk: Desk, queue_name: str, crew: Crew, point: str
) -> None:
    await desk.rule(Route(stream_queue=queue_name))
    message_id = await desk.id_of(1)
    disarm = arm(point, die)
    seen: list[str] = []

    async def work(job: Job) -> int:
        seen.append(job.id)
        return 7

    killed = 0

    async def completed() -> bool:
        nonlocal killed
        try:
            await StreamBridge(desk.work_queues).work()
        except Killed:
            killed += 1
            disarm()
        return killed == 1 and (await desk.row(message_id))["state"] == "completed"

    await crew.run(work, completed)
    await StreamBridge(desk.work_queues).work()
    assert seen == [message_id]
    assert (await desk.history(message_id)).count("completed") == 1
    assert (await desk.depth()).claimed == 0


async def test_a_job_whose_redis_was_emptied_is_added_again(
    desk: Desk, queue_name: str, crew: Crew, clock: Clock
) -> None:
    await desk.rule(Route(stream_queue=queue_name))
    message_id, bridge = await desk.id_of(1), StreamBridge(desk.work_queues)
    await bridge.work()
    queue = Queue(queue_name, redis_url=desk.work_queues.settings.redis_url or "")
    await queue.obliterate(force=True)
    await queue.close()
    clock.turn(s=31)

    async def work(job: Job) -> int:
        return 7

    async def completed() -> bool:
        return await state_after(desk, bridge, message_id) == "completed"

    await crew.run(work, completed)
    assert (await desk.row(message_id))["attempts"] == 1


async def test_an_outcome_whose_events_are_gone_is_asked_for(
    desk: Desk, queue_name: str, crew: Crew, clock: Clock, valkey: Server
) -> None:
    await desk.rule(Route(stream_queue=queue_name))
    message_id, bridge = await desk.id_of(1), StreamBridge(desk.work_queues)
    await bridge.work()
    queue = desk.work_queues.streams.get(queue_name)

    async def work(job: Job) -> int:
        return 7

    async def ended() -> bool:
        return await queue.get_job_result(message_id) == 7

    await crew.run(work, ended)
    client = valkey.client()
    await client.delete(f"{{chasqui:{queue_name}}}:events")
    await client.aclose()
    clock.turn(s=31)
    assert await state_after(desk, bridge, message_id) == "completed"


async def test_a_copy_becomes_a_job_while_the_message_waits(desk: Desk, queue_name: str, crew: Crew) -> None:
    await desk.rule(Route(stream_queue=queue_name, copy=True))
    message_id, bridge = await desk.id_of(1), StreamBridge(desk.work_queues)
    (copy,) = [each for each in await desk.all() if each.parent_id == message_id]

    async def work(job: Job) -> int:
        return 7

    async def completed() -> bool:
        return await state_after(desk, bridge, copy.id) == "completed"

    await crew.run(work, completed)
    assert [each.id for each in await desk.claim()] == [message_id]


async def test_a_stream_queue_that_is_not_open_cannot_be_used(desk: Desk) -> None:
    with pytest.raises(StreamQueueClosed):
        desk.work_queues.streams.require_open("acme", "other")
    with pytest.raises(StreamQueueClosed):
        await desk.work_queues.stream_letters.review(desk.caller, SCOPE, "other", "1-0")


# --- dead letters of stream queues -----------------------------------------------------------------------------------------


async def dead_job(desk: Desk, crew: Crew, queue_name: str, data: Any) -> str:
    """Makes a dead letter of a job that is no message; its entry's id."""
    queue = desk.work_queues.streams.get(queue_name)
    before = await queue.dead_letters.count()
    await queue.add("send", data)

    async def died() -> bool:
        return await queue.dead_letters.count() > before

    await crew.run(refuse, died)
    return (await queue.dead_letters.peek(10))[-1].dlq_id


async def test_a_dead_letter_of_a_stream_queue_goes_back_corrected(desk: Desk, queue_name: str, crew: Crew) -> None:
    entry = await dead_job(desk, crew, queue_name, {"to": "adda", "correlation_id": "c7"})
    letters = desk.work_queues.stream_letters
    review = await letters.review(desk.caller, SCOPE, queue_name, entry)
    assert (await letters.review(desk.caller, SCOPE, queue_name, entry)).id == review.id, "asked twice, opened once"
    assert (review.source, review.correlation_id) == ("stream_dead_letter", "c7")
    assert "the address is wrong" in review.spec.context[0].content
    await desk.work_queues.reviews.decide(
        desk.caller, SCOPE, review.id, "ada", {"decision": "approve"}, corrected_body={"to": "ada"}
    )
    seen: list[Any] = []

    async def work(job: Job) -> None:
        seen.append(job.data)

    async def worked() -> bool:
        return bool(seen)

    disarm = arm("bridge.replayed", die)
    with pytest.raises(Killed):
        await StreamBridge(desk.work_queues).work()
    disarm()
    await StreamBridge(desk.work_queues).work()
    await crew.run(work, worked)
    assert seen == [{"to": "ada"}]
    queue = desk.work_queues.streams.get(queue_name)
    assert (await queue.dead_letters.count(), await queue.count()) == (0, 0)
    assert (await StreamBridge(desk.work_queues).work()).items == 0


async def test_a_rejected_one_is_deleted(desk: Desk, queue_name: str, crew: Crew) -> None:
    entry = await dead_job(desk, crew, queue_name, {"to": "adda"})
    review = await desk.work_queues.stream_letters.review(desk.caller, SCOPE, queue_name, entry)
    await desk.work_queues.reviews.decide(desk.caller, SCOPE, review.id, "ada", {"decision": "reject"})
    await StreamBridge(desk.work_queues).work()
    assert await desk.work_queues.streams.get(queue_name).dead_letters.count() == 0


async def test_after_three_replays_it_is_refused(desk: Desk, queue_name: str, crew: Crew) -> None:
    entry = await dead_job(desk, crew, queue_name, {"to": "adda"})
    queue = desk.work_queues.streams.get(queue_name)
    for _ in range(3):
        review = await desk.work_queues.stream_letters.review(desk.caller, SCOPE, queue_name, entry)
        await desk.work_queues.reviews.decide(desk.caller, SCOPE, review.id, "ada", {"decision": "approve"})
        await StreamBridge(desk.work_queues).work()

        async def died() -> bool:
            return await queue.dead_letters.count() == 1

        await crew.run(refuse, died)
        entry = (await queue.dead_letters.peek(1))[0].dlq_id
    with pytest.raises(ReplayLoop):
        await desk.work_queues.stream_letters.review(desk.caller, SCOPE, queue_name, entry)


async def test_a_watched_stream_queue_sends_its_dead_letters_by_itself(desk: Desk, queue_name: str, crew: Crew) -> None:
    await desk.work_queues.stream_letters.watch(desk.caller, SCOPE, queue_name, b'{"title":"Look","may_correct":true}')
    entry = await dead_job(desk, crew, queue_name, 1)
    for _ in range(2):
        await StreamBridge(desk.work_queues).work()
    (review,) = (await desk.work_queues.reviews.inbox(desk.caller, SCOPE)).items
    assert review.title == "Look"
    (audited,) = await desk.audits(action="stream_dead_letter.review")
    assert msgspec.json.decode(audited.after)["entry_id"] == entry


# --- the whole story -------------------------------------------------------------------------------------------------------


async def test_the_story_of_one_message_under_one_correlation_id(desk: Desk, queue_name: str, crew: Crew) -> None:
    """Published, routed to a stream queue, failed there, dead, reviewed, corrected, replayed, completed."""
    await desk.rule(Route(stream_queue=queue_name), name="to-stream", when="body.kind == 'mail'")
    await desk.rule(Escalate(review={"title": "What now?", "may_correct": True}), on="message_dead", name="to-people")
    message_id = await desk.id_of({"kind": "mail", "to": "adda"}, correlation_id="order-7")
    bridge, reviews = StreamBridge(desk.work_queues), desk.work_queues.reviews

    async def send(job: Job) -> str:
        if job.data["body"]["to"] != "ada":
            raise UnrecoverableError("nobody lives there")
        return "sent"

    async def in_review() -> bool:
        await bridge.work()
        await desk.route()
        return (await desk.row(message_id))["state"] == "in_review"

    await crew.run(send, in_review)
    (review,) = (await reviews.inbox(desk.caller, SCOPE)).items
    await reviews.claim(desk.caller, SCOPE, review.id, "ada")
    corrected = {"kind": "mail", "to": "ada"}
    await reviews.decide(desk.caller, SCOPE, review.id, "ada", {"decision": "approve"}, corrected_body=corrected)

    async def completed() -> bool:
        return await state_after(desk, bridge, message_id) == "completed"

    await crew.run(send, completed)
    row = await desk.row(message_id)
    assert (row["result"], row["correlation_id"]) == ('"sent"', "order-7")
    told = await desk.history(message_id)
    steps = ["published", "routed", "failed", "dead_lettered", "review_needed", "corrected", "replayed", "completed"]
    assert [step for step in told if step in steps] == steps
    trace = [entry.action for entry in reversed(await desk.audits(correlation_id="order-7"))]
    for action in ("message.route", "message.fail", "review.claim", "review.decide", "message.complete"):
        assert action in trace, trace

"""The act of the work queues: what a machine cannot do goes to a person, who corrects it, and the machine does it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from relevo.demo.house import House
from relevo.demo.size import Size
from relevo.engine.job.job import Job
from relevo.engine.worker import Worker
from relevo.errors import DependencyMissing, UnrecoverableError

if TYPE_CHECKING:
    from relevo.client import AsyncClient, Review

T = TypeVar("T")

_STREAM, _SCOPE, _QUEUE = "post", "office", "outgoing"
_STORY = "published", "dead_lettered", "review_needed", "corrected", "replayed", "completed"
_LOOK_S = 0.05


async def correct(house: House, size: Size) -> str:
    """Letters over HTTP become jobs; the one that cannot be sent goes to a person, is corrected, and is sent."""
    total = size.letters
    try:
        async with (
            _served(house) as (client, reviewer),
            Worker(_STREAM, _send, redis_url=house.url, max_attempts=1, store_results=True),
        ):
            await _furnish(client)
            ids = [await _publish(client, number, total) for number in range(total)]
            house.stage.news(f"{total} letters published over HTTP; a rule makes jobs of them", "cyan")
            review = await _asked(house, reviewer)
            house.stage.news(f"{review.title} Somebody takes it, corrects the address and approves", "bold yellow")
            await reviewer.claim_review(_SCOPE, review.id)
            corrected = {"to": f"reader{total - 1}@example.org"}
            await reviewer.decide_review(_SCOPE, review.id, {"decision": "approve"}, corrected_body=corrected)
            await _all_sent(house, client, total)
            await _check(house, client, ids, review)
    except DependencyMissing as error:
        return f"left out, as work queues are not installed here: {error}"
    return f"{total} letters sent, 1 of them corrected by a person; its story is told by one correlation id"


async def _send(job: Job) -> dict[str, str]:
    to = job.data["body"]["to"]
    if "@" not in to:
        raise UnrecoverableError(f"{to} is no address")
    return {"sent_to": to}


@contextlib.asynccontextmanager
async def _served(house: House) -> AsyncGenerator[tuple[AsyncClient, AsyncClient]]:
    """`relevo serve` in this process, on a database in the demo's folder; a client of the owner, and one of a reviewer."""
    try:
        from relevo.api.service import ServiceSettings, WorkService
        from relevo.client import AsyncClient
        from relevo.work.access.api_keys import first_key
        from relevo.work.work_queues import WorkSettings
    except ImportError as error:
        raise DependencyMissing(what="this act", package=error.name or "", extra="relevo[server]") from error
    logging.getLogger("relevo").addHandler(logging.NullHandler())  # the screen is taken
    work_queues = WorkSettings(
        database_url=f"sqlite:///{(house.folder / 'work.db').absolute()}", redis_url=house.url, stream_queues=(_STREAM,)
    )
    service = WorkService(ServiceSettings(work_queues=work_queues, port=0))
    try:
        await service.start()
        assert service.work_queues is not None
        owner = (await first_key(service.work_queues.database, "main", service.work_queues.now_ms)).secret
        async with AsyncClient(service.url, key=owner) as client:
            person = (await client.create_key("ada", ["view", "review"])).secret
            async with AsyncClient(service.url, key=person) as reviewer:
                yield client, reviewer
    finally:
        await service.stop()


async def _furnish(client: AsyncClient) -> None:
    await client.create_scope(_SCOPE)
    await client.create_queue(_SCOPE, _QUEUE, max_retries=1)
    routing: tuple[dict[str, Any], ...] = (
        {
            "name": "to-the-machine",
            "trigger": "message_published",
            "condition": "has(body.to)",
            "actions": [{"action": "route", "stream_queue": _STREAM, "job_name": "send"}],
        },
        {
            "name": "to-people",
            "trigger": "message_dead",
            "actions": [
                {"action": "escalate", "review": {"title": "Where does {{body.to}} live?", "may_correct": True}}
            ],
        },
    )
    for rule in routing:
        await client.create_rule(_SCOPE, rule)


async def _publish(client: AsyncClient, number: int, total: int) -> str:
    to = f"reader{number}@example.org" if number < total - 1 else f"reader{number} at example.org"
    published = await client.publish(_SCOPE, _QUEUE, {"to": to}, correlation_id=f"letter-{number}")
    return published.id


async def _asked(house: House, reviewer: AsyncClient) -> Review:
    async def found() -> Review | None:
        return next(iter((await reviewer.reviews(_SCOPE)).items), None)

    return await _until(house, found, "the letter that goes to a person")


async def _all_sent(house: House, client: AsyncClient, total: int) -> None:
    async def sent() -> bool:
        return len((await client.search(_SCOPE, queue=_QUEUE, state="completed", limit=500)).items) == total

    await _until(house, sent, "all letters to be sent")


async def _until(house: House, ask: Callable[[], Awaitable[T | None]], what: str) -> T:
    """Asks over HTTP until there is an answer."""

    async def look() -> T:
        answer = await ask()
        while not answer:
            await asyncio.sleep(_LOOK_S)
            answer = await ask()
        return answer

    looking = asyncio.create_task(look())
    try:
        await house.until(looking.done, what)
        return await looking
    finally:
        looking.cancel()


async def _check(house: House, client: AsyncClient, ids: list[str], review: Review) -> None:
    messages = [await client.message(_SCOPE, message_id) for message_id in ids]
    told = [step.event for step in (await client.history(_SCOPE, ids[-1])).items]
    house.tally.equal("letters sent, of those published", len(ids), sum(each.state == "completed" for each in messages))
    right = sum(each.result == {"sent_to": each.body["to"]} for each in messages)
    house.tally.equal("results that came back from the stream queue", len(ids), right)
    house.tally.equal(
        "the corrected letter's story", ", ".join(_STORY), ", ".join(step for step in told if step in _STORY)
    )
    house.tally.equal("its correlation id, at the review", messages[-1].correlation_id, review.correlation_id)

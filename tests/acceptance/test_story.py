"""The story of issue to answer: a message that a machine could not do, a person corrected, and the machine then did.

Everything is as in production: `relevo serve` and `relevo worker` as processes, a database, a Redis, and HTTP in between. What
happened is told by one correlation id.
"""

import os
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.pace import limit
from tests.patience import until
from tests.servers.child import Child
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server
from tests.support.serve_process import ServeProcess, sqlite_in

HANDLER = """
from relevo import Job, UnrecoverableError


async def send(job: Job) -> dict[str, str]:
    to = job.data["body"]["to"]
    if "@" not in to:
        raise UnrecoverableError(f"{to} is no address")
    return {"sent_to": to}
"""
CORRELATION = "order-1017"
STORY = [
    "published",
    "routed",
    "failed",
    "dead_lettered",
    "review_needed",
    "corrected",
    "replayed",
    "completed",
]


class Post:
    """The scope `post` over HTTP, as one key of it sees it."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=limit(30))

    async def do(self, method: str, path: str, body: Any = None) -> Any:
        said = await self.http.request(method, f"/v1{path}", **({} if body is None else {"json": body}))
        assert said.is_success, f"{method} {path}: {said.status_code} {said.text}"
        return said.json()["data"] if said.content else None

    async def steps(self, message_id: str) -> list[str]:
        return [step["event"] for step in await self.do("GET", f"/scopes/post/messages/{message_id}/history")]

    async def until_state(self, message_id: str, state: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def there() -> bool:
            found.update(await self.do("GET", f"/scopes/post/messages/{message_id}"))
            return found["state"] == state

        await until(there, timeout=60)
        return found


@pytest.fixture(
    params=[
        pytest.param(("sqlite", "valkey"), id="sqlite-valkey", marks=pytest.mark.whole),
        pytest.param(("postgres", "redis86"), id="postgres-redis86"),
        pytest.param(("mariadb", "redis7"), id="mariadb-redis7", marks=pytest.mark.whole),
    ]
)
def servers(request: pytest.FixtureRequest, tmp_path: Path, key_leaks: KeyLeaks) -> tuple[str, str]:
    """A database of its own, and a Redis: where each of them is."""
    store, cache = request.param
    key_leaks.allow("rw:*")
    redis: Server = request.getfixturevalue(cache)
    if store == "sqlite":
        return sqlite_in(tmp_path), redis.url
    database: Any = request.getfixturevalue(store)
    name = f"story_{os.getpid()}"
    database.create(name)
    return database.url({"postgres": "asyncpg", "mariadb": "asyncmy"}[store], name), redis.url


@pytest.fixture
def serve(servers: tuple[str, str], queue_name: str) -> Generator[ServeProcess]:
    database_url, redis_url = servers
    started = ServeProcess(database_url, "--redis-url", redis_url, "--stream-queue", queue_name)
    yield started
    started.close()


@pytest.fixture
def worker(servers: tuple[str, str], queue_name: str, tmp_path: Path) -> Generator[None]:
    (tmp_path / "mail.py").write_text(HANDLER)
    options = ("--queue", queue_name, "--max-attempts", "1", "--store-results")
    command = (sys.executable, "-m", "relevo", "--redis-url", servers[1], "worker", "mail:send")
    with Child(*command, *options, cwd=tmp_path) as working:
        yield
        assert working.end() == 0


@pytest.fixture
async def post(serve: ServeProcess) -> AsyncGenerator[Post]:
    """With the scope, the queue and the two rules that the story needs."""
    opened = Post(serve.url, serve.key)
    async with opened.http:
        yield opened


async def furnish(post: Post, stream_queue: str, *, escalate: bool) -> None:
    await post.do("POST", "/scopes", {"slug": "post"})
    await post.do(
        "POST",
        "/scopes/post/queues",
        {"slug": "letters", "max_retries": 2, "backoff_initial_s": 0, "backoff_jitter_s": 0},
    )
    to_stream = {
        "name": "to-the-machine",
        "trigger": "message_published",
        "condition": "body.kind == 'mail'",
        "actions": [{"action": "route", "stream_queue": stream_queue, "job_name": "send"}],
    }
    await post.do("POST", "/scopes/post/rules", to_stream)
    if escalate:
        to_people = {
            "name": "to-people",
            "trigger": "message_dead",
            "actions": [{"action": "escalate", "review": {"title": "Where to?", "may_correct": True}}],
        }
        await post.do("POST", "/scopes/post/rules", to_people)


async def person(post: Post, name: str) -> Post:
    """Somebody with a key that may only look and review."""
    made = await post.do("POST", "/keys", {"name": name, "permissions": ["view", "review"]})
    return Post(str(post.http.base_url), made["secret"])


async def reviewed(post: Post, reviewer: Post, corrected: Any) -> dict[str, Any]:
    """Takes the one review there is, corrects the body, and approves."""
    (review,) = await reviewer.do("GET", "/scopes/post/reviews")
    place = f"/scopes/post/reviews/{review['id']}"
    held = await reviewer.do("POST", f"{place}/claim")
    assert (held["state"], held["holder"]) == ("held", "ada")
    answer = {"answer": {"decision": "approve"}, "corrected_body": corrected}
    await reviewer.do("POST", f"{place}/decide", answer)
    return await post.do("GET", f"{place}/result?wait_s=30")


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("worker")
async def test_published_routed_failed_reviewed_corrected_replayed_completed(post: Post, queue_name: str) -> None:
    await furnish(post, queue_name, escalate=True)
    letter = {"body": {"kind": "mail", "to": "ada at example.org"}, "correlation_id": CORRELATION}
    message_id = (await post.do("POST", "/scopes/post/queues/letters/messages", letter))["id"]
    dead = await post.until_state(message_id, "in_review")
    assert "ada at example.org is no address" in dead["failure_reason"]

    ada = await person(post, "ada")
    async with ada.http:
        review = await reviewed(post, ada, {"kind": "mail", "to": "ada@example.org"})
    assert (review["outcome"], review["correlation_id"]) == ({"decision": "approve"}, CORRELATION)

    done = await post.until_state(message_id, "completed")
    assert (done["result"], done["body"]["to"]) == ({"sent_to": "ada@example.org"}, "ada@example.org")
    told = await post.steps(message_id)
    assert [step for step in told if step in STORY] == STORY
    await every_step_is_in_the_trace(post, message_id, review["id"])


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("servers", [("sqlite", "valkey")], ids="-".join, indirect=True)
async def test_a_dead_letter_is_sent_to_review_by_a_click(post: Post, queue_name: str) -> None:
    """Without the second rule: somebody looks at the dead letters and has a person decide."""
    await furnish(post, queue_name, escalate=False)
    letter = {"body": {"kind": "mail", "to": "nowhere"}, "correlation_id": CORRELATION}
    message_id = (await post.do("POST", "/scopes/post/queues/letters/messages", letter))["id"]
    await post.until_state(message_id, "dead")
    (found,) = await post.do("GET", "/scopes/post/dead-letters")
    assert (found["id"], found["queue"]) == (message_id, "letters")
    await post.do("POST", f"/scopes/post/dead-letters/{message_id}/review")
    ada = await person(post, "ada")
    async with ada.http:
        await reviewed(post, ada, {"kind": "mail", "to": "here@example.org"})
    assert (await post.until_state(message_id, "completed"))["result"] == {"sent_to": "here@example.org"}
    assert await post.do("GET", "/scopes/post/dead-letters") == []


async def every_step_is_in_the_trace(post: Post, message_id: str, review_id: str) -> None:
    """What happened, oldest first, found by nothing but the correlation id."""
    trace = await post.do("GET", f"/trace?correlation_id={CORRELATION}")
    assert (trace["messages"], trace["reviews"], trace["complete"]) == ([message_id], [review_id], True)
    told = [step["what"] for step in trace["steps"] if step["source"] == "message"]
    assert [step for step in told if step in STORY] == STORY
    by_ada = [step["what"] for step in trace["steps"] if step["source"] == "review" and step["actor"] == "ada"]
    assert by_ada == ["claimed", "decided"]
    moments = [step["at"] for step in trace["steps"]]
    assert moments == sorted(moments)
    entries = list(reversed(await post.do("GET", f"/audit?correlation_id={CORRELATION}&limit=200")))
    done = [entry["action"] for entry in entries]
    for action in ("message.route", "message.fail", "review.claim", "review.decide"):
        assert action in done, done
    assert done[-1] == "message.complete"

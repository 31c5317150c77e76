"""The fast routes: publish, claim and settle, answered before the framework. Their table is in fast_operations.py.

A request costs one look at its address, one at its headers, one decoding by msgspec; everything else is the store's.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, cast

from msgspec import Raw, structs

from relevo.api.auth import caller_of, request_id_of
from relevo.api.fast_operations import CLAIM, PLAIN, PLAIN_BATCH, PUBLISH, PUBLISH_BATCH, SETTLE, SETTLE_MANY
from relevo.api.problems import known, nowhere, packed_problem, problem_of, refused
from relevo.api.request_body import ClientGone, Receive, collect, decoded, plain_or_none, require_json
from relevo.api.responses import enveloped, packed, packed_ids
from relevo.api.serving import Serving
from relevo.contract.claims import (
    CompleteIn,
    ExtendIn,
    FailIn,
    Settled,
)
from relevo.contract.messages import BatchOutcome, Published, Refusal
from relevo.errors import InvalidInput
from relevo.wire.ids import require_id
from relevo.work.caller import Caller
from relevo.work.consume.claimed_messages import ClaimedMessages, ReadyMessages
from relevo.work.consume.claims import Wanted
from relevo.work.consume.long_poll import CancelToken
from relevo.work.message.failure import Failure
from relevo.work.message.verdict import SettleItem, Verdict

Send = Callable[[Any], Awaitable[None]]
Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class Asked(NamedTuple):
    """What is known of a request before its body is read."""

    caller: Caller
    declared: bytes | None
    content_type: bytes | None
    receive: Receive


Answer = tuple[int, bytes]
Work = tuple[str, Callable[[Asked, list[str]], Awaitable[Answer]]]
"""A fast route's name in the metrics, and what answers it."""
Answered = tuple[int, bytes, list[tuple[bytes, bytes]]]
"""Status, body and headers."""


class FastRoutes:
    """An ASGI application in front of another: answers what it knows, hands on everything else."""

    def __init__(self, app: Asgi, serving: Serving) -> None:
        self._app = app
        self._work_queues = serving.work_queues
        self._settings = serving.settings
        self._metrics = serving.metrics
        self._stopping = serving.stopping
        self._waiting: set[CancelToken] = set()
        self._batch: Work = PUBLISH_BATCH.path, self._publish_batch
        self._of_queue: dict[str, Work] = {
            "messages": (PUBLISH.path, self._publish),
            "claim": (CLAIM.path, self._claim),
            **{verdict: (each.path, self._settle_batch) for verdict, each in SETTLE_MANY.items()},
        }
        self._of_message: dict[str, Work] = {verdict: (each.path, self._settle) for verdict, each in SETTLE.items()}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        parts = path.split("/")
        found = self.route(parts) if scope["method"] == "POST" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        try:
            status, body, headers = await self.answer(path, parts, found, scope["headers"], receive)
        except ClientGone:
            return
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def answer(
        self, path: str, parts: list[str], found: Work, given: list[tuple[bytes, bytes]], receive: Receive
    ) -> Answered:
        """What goes back. Raises `ClientGone` alone, when there is nobody left to answer."""
        started = time.perf_counter()
        name, work = found
        authorization = declared = content_type = given_id = None
        for header, value in given:
            if header == b"authorization":
                authorization = value
            elif header == b"content-type":
                content_type = value
            elif header == b"content-length":
                declared = value
            elif header == b"x-request-id":
                given_id = value
        request_id = request_id_of(given_id)
        headers: list[tuple[bytes, bytes]]
        try:
            if not (path.isascii() and path.isprintable()):
                raise nowhere(path)
            caller = await caller_of(self._work_queues, authorization, request_id, "POST", parts)
            status, body = await work(Asked(caller, declared, content_type, receive), parts)
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            if status >= 400:
                headers = _PROBLEM_HEADERS[status >= 429] + headers[1:]
        except ClientGone:
            self._metrics.answered(name, "POST", 499, time.perf_counter() - started)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other side gets a problem document
            status, body, headers = packed_problem(problem_of(known(error), request_id))
        headers.append((b"x-request-id", request_id.encode()))
        self._metrics.answered(name, "POST", status, time.perf_counter() - started)
        return status, body, headers

    def route(self, parts: list[str]) -> Work | None:
        """The fast route at an address, split at its slashes, that is posted to."""
        if len(parts) not in (7, 8) or parts[1] != "v1" or parts[2] != "scopes":
            return None
        if len(parts) == 8:
            return self._batch if (parts[4], parts[6], parts[7]) == ("queues", "messages", "batch") else None
        if parts[4] == "queues":
            return self._of_queue.get(parts[6])
        return self._of_message.get(parts[6]) if parts[4] == "messages" else None

    # --- publish ----------------------------------------------------------------------------------------------------

    async def _publish(self, asked: Asked, parts: list[str]) -> Answer:
        raw = await self._body(asked, self._settings.max_message_bytes, "message", "max_message_bytes")
        plain = plain_or_none(PLAIN, raw)
        if plain is not None and _is_plain([plain.idempotency_key]):
            (told,) = await self._work_queues.messages.publish_plain(
                asked.caller, parts[3], parts[5], [plain.body], [plain.idempotency_key]
            )
            outcome = Published(told, "pending") if isinstance(told, str) else told
        else:
            message = decoded(PUBLISH.decoder, raw).in_numbers()
            (outcome,) = await self._work_queues.messages.publish(asked.caller, parts[3], parts[5], [message])
        request_id = asked.caller.request_id
        if isinstance(outcome, Refusal):
            return self._refusal(outcome, request_id)
        if outcome.duplicate:
            return 200, packed(outcome, request_id)
        self._metrics.published.inc()
        return 201, packed(outcome, request_id)

    async def _publish_batch(self, asked: Asked, parts: list[str]) -> Answer:
        raw = await self._body(asked, self._settings.max_batch_bytes, "batch", "max_batch_bytes")
        limit, plain = self._settings.max_message_bytes, plain_or_none(PLAIN_BATCH, raw)
        if plain is not None:
            bodies = [item.body for item in plain.items]
            keys = [item.idempotency_key for item in plain.items]
            if max(map(len, bodies)) <= limit and _is_plain(keys):
                return await self._publish_plain(asked, parts, bodies, keys)
        messages = [message.in_numbers() for message in decoded(PUBLISH_BATCH.decoder, raw).items]
        for place, message in enumerate(messages):
            if len(message.body) > limit:
                reason = f"it is over the limit of {limit} bytes; store it elsewhere and send a reference"
                raise InvalidInput(where=f"$.items[{place}].body", reason=reason)
        return self._published(
            asked, await self._work_queues.messages.publish(asked.caller, parts[3], parts[5], messages)
        )

    async def _publish_plain(self, asked: Asked, parts: list[str], bodies: list[Raw], keys: list[str | None]) -> Answer:
        published = self._work_queues.messages.publish_plain
        outcomes = await published(asked.caller, parts[3], parts[5], bodies, keys)
        if isinstance(outcomes[0], str):
            ids = cast("list[str]", outcomes)
            self._metrics.published.inc(len(ids))
            return 200, packed_ids(ids, asked.caller.request_id)
        return self._published(asked, cast("list[Published | Refusal]", outcomes))

    def _published(self, asked: Asked, outcomes: list[Published | Refusal]) -> Answer:
        self._metrics.published.inc(sum(isinstance(each, Published) and not each.duplicate for each in outcomes))
        told = [BatchOutcome(refusal=each) if isinstance(each, Refusal) else each for each in outcomes]
        return 200, packed(told, asked.caller.request_id)

    # --- claim ------------------------------------------------------------------------------------------------------

    async def _claim(self, asked: Asked, parts: list[str]) -> Answer:
        raw = await self._body(asked, self._settings.small_body_bytes, "body", "nothing: it holds no data")
        wanted = decoded(CLAIM.decoder, raw)
        patience = CancelToken()
        wait_s = min(wanted.wait_s, self._settings.longest_wait_s)
        sought = Wanted(wanted.batch_size, wait_s, wanted.consumer, wanted.labels, wanted.subscription)
        claim = self._work_queues.claims.take(asked.caller, parts[3], parts[5], sought, patience)
        if wanted.wait_s > 0:
            with self._metrics.long_polls.track_inprogress():
                claimed = await self._while_connected(claim, patience, asked, parts[3], wanted.subscription)
        else:
            claimed = await claim
        self._metrics.claimed.inc(len(claimed))
        return 200, enveloped(claimed.encoded(), asked.caller.request_id)

    async def _while_connected(
        self,
        claim: Coroutine[Any, Any, ClaimedMessages | ReadyMessages],
        patience: CancelToken,
        asked: Asked,
        scope: str,
        subscription: str | None,
    ) -> ClaimedMessages | ReadyMessages:
        """A claim that ends when the worker hangs up or the process is to end. It is never cancelled, because it may be
        about to commit; what it took for a worker that is gone goes back at once."""
        self._waiting.add(patience)
        if self._stopping.is_set():
            patience.end()
        gone = asyncio.ensure_future(asked.receive())
        gone.add_done_callback(lambda done: None if done.cancelled() else patience.end())
        try:
            claimed = await claim
            if gone.done():
                if claimed:
                    items = [
                        SettleItem(id=each.id, claim_token=each.claim_token, subscription=subscription)
                        for each in claimed.messages()
                    ]
                    await self._work_queues.settlements.settle(asked.caller, scope, "release", items)
                raise ClientGone
            return claimed
        finally:
            gone.cancel()
            self._waiting.discard(patience)

    def stop(self) -> None:
        """The process is about to end: waiting claims are answered at once, with nothing."""
        self._stopping.set()
        for patience in tuple(self._waiting):
            patience.end()

    # --- settle -----------------------------------------------------------------------------------------------------

    async def _settle(self, asked: Asked, parts: list[str]) -> Answer:
        verdict, message_id = cast("Verdict", parts[6]), parts[5]
        raw = await self._body(asked, self._settings.max_message_bytes, "result", "max_message_bytes")
        body = decoded(SETTLE[verdict].decoder, raw)
        item = _item(require_id("message", message_id), body)
        (outcome,) = await self._work_queues.settlements.settle(asked.caller, parts[3], verdict, [item])
        request_id = asked.caller.request_id
        if outcome.refusal is not None:
            return self._refusal(outcome.refusal, request_id)
        self._metrics.settled.labels(verdict).inc()
        return 200, packed(outcome, request_id)

    async def _settle_batch(self, asked: Asked, parts: list[str]) -> Answer:
        verdict = cast("Verdict", parts[6])
        raw = await self._body(asked, self._settings.max_batch_bytes, "batch", "max_batch_bytes")
        body = decoded(SETTLE_MANY[verdict].decoder, raw)
        items = [_item(each.id, each) for each in body.items]
        outcomes: list[Settled] = await self._work_queues.settlements.settle(
            asked.caller,
            parts[3],
            verdict,
            items,
            queue=parts[5],
        )
        self._metrics.settled.labels(verdict).inc(sum(each.refusal is None for each in outcomes))
        return 200, packed(outcomes, asked.caller.request_id)

    # --- shared -----------------------------------------------------------------------------------------------------

    async def _body(self, asked: Asked, limit: int, what: str, option: str) -> bytes:
        own = asked.caller.max_body_bytes
        if own is not None and own < limit:
            limit, option = own, "the key's `max_body_bytes`"
        raw = await collect(asked.receive, limit, asked.declared, what=what, option=option)
        require_json(asked.content_type)
        return raw

    def _refusal(self, refusal: Refusal, request_id: str) -> Answer:
        self._metrics.refused.labels(refusal.code).inc()
        status, body, _ = packed_problem(refused(refusal.code, refusal.detail, request_id))
        return status, body


_PROBLEM_HEADERS: dict[bool, list[tuple[bytes, bytes]]] = {
    False: [(b"content-type", b"application/problem+json")],
    True: [(b"content-type", b"application/problem+json"), (b"retry-after", b"1")],
}


def _is_plain(keys: list[str | None]) -> bool:
    """Whether keys hold nothing that only the long way knows how to refuse."""
    return _CONTROL.search("".join([key for key in keys if key is not None])) is None


_CONTROL = re.compile("[\x00-\x1f\x7f]")
"""What no `Word` may hold."""


def _item(message_id: str, body: Any) -> SettleItem:
    subscription = body.subscription
    match body:
        case CompleteIn():
            result = body.result
            return SettleItem(id=message_id, claim_token=body.claim_token, result=result, subscription=subscription)
        case FailIn():
            return SettleItem(
                id=message_id,
                claim_token=body.claim_token,
                reason=body.reason,
                error=None if body.error is None else Failure(**structs.asdict(body.error)),
                dead=body.dead,
                subscription=subscription,
            )
        case ExtendIn():
            return SettleItem(
                id=message_id, claim_token=body.claim_token, seconds=body.extend_s, subscription=subscription
            )
        case _:
            return SettleItem(id=message_id, claim_token=body.claim_token, subscription=subscription)

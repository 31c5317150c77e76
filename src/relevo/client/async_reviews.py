"""Human review for asyncio: the inbox, what people do, patterns, watches. sync_reviews.py is made from this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from relevo.client.async_sender import AsyncSender
from relevo.client.request import Call, at, given
from relevo.contract.pages import Page
from relevo.contract.reviews import Pattern, Review, StreamWatch


class AsyncReviews(AsyncSender):
    """Reviews of a scope. `person` names for whom a key acts that acts for people; others go by the name of their key."""

    async def reviews(
        self,
        scope: str,
        *,
        state: str | None = None,
        holder: str | None = None,
        person: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Review]:
        """What waits for people, oldest first; with `person`, only what they may decide or hold."""
        question = {"state": state, "holder": holder, "person": person, "limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "reviews"), Page[Review], question=question))

    async def review(self, scope: str, review_id: str) -> Review:
        return await self.send(Call("GET", at("scopes", scope, "reviews", review_id), Review))

    async def review_result(self, scope: str, review_id: str, *, wait_s: float = 0.0) -> Review:
        """The review, once it is over or the time is (60 s at most)."""
        return await self.send(
            Call(
                "GET",
                at("scopes", scope, "reviews", review_id, "result"),
                Review,
                question={"wait_s": wait_s},
                waits_s=wait_s,
            )
        )

    async def _act(
        self, scope: str, review_id: str, verb: str, body: Mapping[str, Any] | None, person: str | None
    ) -> Review:
        headers = {} if person is None else {"relevo-person": person}
        path = at("scopes", scope, "reviews", review_id, verb)
        # Claiming twice is holding longer; everything else is done once.
        return await self.send(Call("POST", path, Review, body, once=True, headers=headers))

    async def claim_review(self, scope: str, review_id: str, *, person: str | None = None) -> Review:
        """Takes it; again it is held for longer. `ReviewHeld`: somebody else has it."""
        return await self._act(scope, review_id, "claim", None, person)

    async def release_review(self, scope: str, review_id: str, *, person: str | None = None) -> Review:
        return await self._act(scope, review_id, "release", None, person)

    async def hand_over_review(self, scope: str, review_id: str, to: str, *, person: str | None = None) -> Review:
        return await self._act(scope, review_id, "hand-over", {"to": to}, person)

    async def comment_review(self, scope: str, review_id: str, text: str, *, person: str | None = None) -> Review:
        return await self._act(scope, review_id, "comment", {"text": text}, person)

    async def decide_review(
        self,
        scope: str,
        review_id: str,
        answer: Mapping[str, Any],
        *,
        corrected_body: Any = UNSET,
        person: str | None = None,
    ) -> Review:
        """Answers it: the decision and the fields that go with it; the body as it should have been, if that may be changed."""
        body: dict[str, Any] = {"answer": dict(answer)}
        if corrected_body is not UNSET:
            body["corrected_body"] = corrected_body
        return await self._act(scope, review_id, "decide", body, person)

    async def withdraw_review(
        self, scope: str, review_id: str, reason: str = "withdrawn", *, person: str | None = None
    ) -> Review:
        """Nobody needs the answer any more."""
        return await self._act(scope, review_id, "withdraw", {"reason": reason}, person)

    # --- how dead letters get there ---------------------------------------------------------------------------------

    async def review_dead_letter(self, scope: str, message_id: str, review: Mapping[str, Any] | None = None) -> Review:
        """Has people look at a dead letter; approved, it goes back. `review`: a specification, or a pattern and its
        parameters; none for the usual questions."""
        body = given(review=review)
        return await self.send(
            Call("POST", at("scopes", scope, "dead-letters", message_id, "review"), Review, body, once=True)
        )

    async def review_stream_dead_letter(
        self, scope: str, stream_queue: str, entry_id: str, review: Mapping[str, Any] | None = None
    ) -> Review:
        """The same for a dead letter of a stream queue."""
        body = {"stream_queue": stream_queue, "entry_id": entry_id, **given(review=review)}
        return await self.send(Call("POST", at("scopes", scope, "stream-dead-letters"), Review, body, once=True))

    async def stream_watches(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[StreamWatch]:
        question = {"limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "stream-watches"), Page[StreamWatch], question=question))

    async def watch_stream(self, scope: str, stream_queue: str, review: Mapping[str, Any] | None = None) -> StreamWatch:
        """From now on dead letters of this stream queue go to review by themselves."""
        body = {"stream_queue": stream_queue, **given(review=review)}
        return await self.send(Call("POST", at("scopes", scope, "stream-watches"), StreamWatch, body, once=True))

    async def unwatch_stream(self, scope: str, stream_queue: str) -> None:
        await self.send(Call[None]("DELETE", at("scopes", scope, "stream-watches", stream_queue), None, safe=False))

    # --- patterns ---------------------------------------------------------------------------------------------------

    async def review_patterns(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Pattern]:
        """The latest version of each."""
        question = {"limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "review-patterns"), Page[Pattern], question=question))

    async def review_pattern(self, scope: str, pattern: str, *, version: int | None = None) -> Pattern:
        return await self.send(
            Call("GET", at("scopes", scope, "review-patterns", pattern), Pattern, question={"version": version})
        )

    async def add_review_pattern(self, scope: str, pattern: str, spec: Mapping[str, Any]) -> Pattern:
        """A pattern, or a new version of it."""
        return await self.send(
            Call(
                "POST",
                at("scopes", scope, "review-patterns"),
                Pattern,
                {"name": pattern, "spec": dict(spec)},
                once=True,
            )
        )

    async def preview_review(
        self,
        scope: str,
        pattern: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        body: Any = UNSET,
    ) -> dict[str, Any]:
        """What people would see."""
        options: dict[str, Any] = {} if body is UNSET else {"body": body}
        body = {"parameters": dict(parameters or {}), **given(version=version), **options}
        return await self.send(
            Call("POST", at("scopes", scope, "review-patterns", pattern, "preview"), dict[str, Any], body)
        )

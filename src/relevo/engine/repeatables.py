"""The schedules of a queue: make, change, list, pause, run now, remove. They are data: every process sees the same."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.broker.scripts import script
from relevo.engine.backoff import BackoffLike, retry_override
from relevo.engine.patterns import MissedFiresPolicy, RepeatableMeta, RepeatPattern
from relevo.engine.slots import Timetable
from relevo.engine.validation import checked_job_name
from relevo.errors import BadArgument, NoSuchSchedule, Undecodable
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import encode_payload
from relevo.wire.repeat import RepeatSpec, derived_key

UPSERT_REPEATABLE = script("upsert_repeatable")
REMOVE_REPEATABLE = script("remove_repeatable")
PAUSE_REPEATABLE = script("pause_repeatable")

SCRIPTS = (UPSERT_REPEATABLE, REMOVE_REPEATABLE, PAUSE_REPEATABLE)

RepeatLike = RepeatPattern | Mapping[str, Any]
MissedFiresLike = MissedFiresPolicy | Mapping[str, Any]


class Repeatables:
    """All schedules of one queue. A schedule is a recipe: each slot makes a job of its own."""

    def __init__(self, link: Link, keys: QueueKeys) -> None:
        self._link = link
        self._keys = keys

    async def upsert_repeatable(
        self,
        name: str,
        data: Any,
        *,
        repeat: RepeatLike,
        key: str | None = None,
        limit: int | None = None,
        start_after_ms: int | None = None,
        end_before_ms: int | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        missed_fires: MissedFiresLike | None = None,
    ) -> RepeatableMeta:
        """Makes the schedule, or replaces the one with the same key (without `key`: the same name and pattern)."""
        checked_job_name(name)
        pattern = RepeatPattern.of(repeat).to_wire()
        if key is not None and not key.strip():
            raise BadArgument(argument="key", value=key, reason="blank", remedy="Leave it out, or name the schedule.")
        spec = RepeatSpec(
            derived_key(name, pattern) if key is None else key,
            name,
            pattern,
            encode_payload(data, name),
            limit,
            start_after_ms,
            end_before_ms,
            MissedFiresPolicy.of(missed_fires).to_wire(),
            retry_override(attempts, backoff),
        )
        first = Timetable.of(spec).first_fire(time.time_ns() // 1_000_000)
        before = await self.spec(spec.key)
        same_beat = before is not None and (before.pattern, before.start_after_ms) == (pattern, start_after_ms)
        score: Reply = await self._link.run(
            UPSERT_REPEATABLE, self._places(spec.key), spec.key, first, spec.encode(), int(same_beat)
        )
        return RepeatableMeta.of(spec, int(float(score)))

    async def list(self, limit: int = 100, *, paused: bool = False) -> list[RepeatableMeta]:
        """Schedules in the order of their next fire; with `paused`, those that are set aside."""
        if limit < 1:
            return []
        place = self._keys.repeat_paused if paused else self._keys.repeat
        found: Reply = await self._link.call("ZRANGE", place, 0, limit - 1, "WITHSCORES")
        metas: list[RepeatableMeta] = []
        for at in range(0, len(found), 2):
            spec = await self.spec(found[at].decode(errors="replace"))
            if spec is not None:
                metas.append(RepeatableMeta.of(spec, int(float(found[at + 1]))))
        return metas

    async def spec(self, key: str) -> RepeatSpec | None:
        """What is stored under `key`; None when nothing readable is."""
        stored: Reply = await self._link.call("HGET", self._keys.repeat_spec(key), "spec")
        try:
            return None if stored is None else RepeatSpec.decode(stored)
        except Undecodable:
            return None

    async def remove_repeatable(self, key: str) -> bool:
        """Ends the schedule; False when there is none with this key."""
        return await self._link.run(REMOVE_REPEATABLE, self._places(key), key) == 1

    async def pause_repeatable(self, key: str) -> bool:
        """Sets the schedule aside until `resume`; False when it is not there or is paused already."""
        keys = [self._keys.repeat, self._keys.repeat_paused]
        return await self._link.run(PAUSE_REPEATABLE, keys, key, "") == 1

    async def resume(self, key: str) -> bool:
        """Takes a paused schedule up again, with its next slot from now; what passed meanwhile was not missed."""
        spec = await self.spec(key)
        if spec is None:
            return False
        keys = [self._keys.repeat_paused, self._keys.repeat]
        following = Timetable.of(spec).first_fire(time.time_ns() // 1_000_000)
        return await self._link.run(PAUSE_REPEATABLE, keys, key, following) == 1

    async def recipe(self, key: str) -> RepeatSpec:
        """The schedule's spec, to make a job of it now, apart from its slots."""
        spec = await self.spec(key)
        if spec is None:
            raise NoSuchSchedule(key=key, queue=self._keys.queue)
        return spec

    def _places(self, key: str) -> list[bytes]:
        return [self._keys.repeat, self._keys.repeat_spec(key), self._keys.repeat_paused]

"""The schedules of a queue: make, change, list, pause, run now, remove. They are data: every process sees the same."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from relevo.arguments import instance
from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.broker.scripts import script
from relevo.engine.schedules.patterns import MissedFiresPolicy, RepeatableMeta, RepeatPattern
from relevo.engine.schedules.timetable import Timetable
from relevo.errors import BadArgument, NoSuchSchedule, PayloadTooLarge, Undecodable, WrongType
from relevo.wire.backoff import BackoffLike, retry_override
from relevo.wire.envelope import Envelope
from relevo.wire.envelope_encoder import checked_job_name, checked_text
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import MSGPACK, Codec
from relevo.wire.repeat import RepeatSpec, derived_key

UPSERT_REPEATABLE = script("upsert_repeatable", __name__)
REMOVE_REPEATABLE = script("remove_repeatable", __name__)
PAUSE_REPEATABLE = script("pause_repeatable", __name__)

SCRIPTS = (UPSERT_REPEATABLE, REMOVE_REPEATABLE, PAUSE_REPEATABLE)

RepeatLike = RepeatPattern | Mapping[str, Any]
MissedFiresLike = MissedFiresPolicy | Mapping[str, Any]


class Schedules:
    """All schedules of one queue. A schedule is a recipe: each fire makes a job of its own."""

    def __init__(self, link: Link, keys: QueueKeys, *, max_payload: int = 1_048_576, codec: Codec = MSGPACK) -> None:
        self._link = link
        self._keys = keys
        self._max_payload = max_payload
        self._codec = codec

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
        """Makes the schedule, or replaces the one with the same key (without `key`: the same name and pattern).

        Its limit counts anew. An unchanged pattern and start keep the beat; a paused schedule stays paused.
        """
        return await self._upsert(
            name, data, repeat, key, limit, start_after_ms, end_before_ms, attempts, backoff, missed_fires
        )

    async def declare(
        self, name: str, *, key: str, repeat: RepeatLike, missed_fires: MissedFiresLike | None = None
    ) -> RepeatableMeta:
        """Makes a schedule that code declares: a call without arguments, which ends when it leaves the code."""
        return await self._upsert(name, {}, repeat, key, missed_fires=missed_fires, declared=True)

    async def _upsert(
        self,
        name: str,
        data: Any,
        repeat: RepeatLike,
        key: str | None,
        limit: int | None = None,
        start_after_ms: int | None = None,
        end_before_ms: int | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        missed_fires: MissedFiresLike | None = None,
        *,
        declared: bool = False,
    ) -> RepeatableMeta:
        checked_job_name(name)
        pattern = RepeatPattern.of(repeat).to_wire()
        spec = RepeatSpec(
            derived_key(name, pattern)
            if key is None
            else checked_text("key", key, "Leave it out, or name the schedule."),
            name,
            pattern,
            self._codec.encode(data, name),
            _checked_number("limit", limit),
            _checked_number("start_after_ms", start_after_ms),
            _checked_number("end_before_ms", end_before_ms),
            MissedFiresPolicy.of(missed_fires).to_wire(),
            retry_override(attempts, backoff),
        )
        fire = Envelope("0" * 26, spec.payload, 1 << 40, 0, spec.retry)  # workers measure the whole envelope
        size = len(fire.encode())
        if size > self._max_payload:
            raise PayloadTooLarge(job=name, size=size, limit=self._max_payload)
        timetable = Timetable.of(spec)
        stored, now_ms = await self._look_up(spec.key)
        before = _readable(stored)
        goes_on = before is not None and (before.pattern, before.start_after_ms) == (pattern, start_after_ms)
        score: Reply = await self._link.run(
            UPSERT_REPEATABLE,
            self._places(spec.key),
            spec.key,
            timetable.first_fire(now_ms),
            spec.encode(),
            stored if goes_on and stored else b"",
            int(before is not None),
            int(declared),
        )
        return RepeatableMeta.of(spec, int(float(score)))

    async def list(self, limit: int = 100, *, paused: bool = False) -> list[RepeatableMeta]:
        """Schedules in the order of their next fire; with `paused`, those that are set aside. What cannot be read is in
        neither: see `unreadable`."""
        if instance("limit", limit, int) < 1:
            return []
        place = self._keys.repeat_paused if paused else self._keys.repeat
        found: Reply = await self._link.call("ZRANGE", place, 0, limit - 1, "WITHSCORES")
        metas: list[RepeatableMeta] = []
        for at in range(0, len(found), 2):
            spec = await self.spec(found[at].decode(errors="replace"))
            if spec is not None:
                metas.append(RepeatableMeta.of(spec, int(float(found[at + 1]))))
        return metas

    async def unreadable(self, limit: int = 100) -> list[str]:
        """Keys of schedules that cannot be read, and so are in no listing; a scheduler has set them aside or will. An upsert
        under the same key repairs one, `remove_repeatable` ends it."""
        keys: list[str] = []
        for place in (self._keys.repeat_paused, self._keys.repeat):
            found: Reply = await self._link.call("ZRANGE", place, 0, limit - 1)
            keys += [key.decode(errors="replace") for key in found]
        return [key for key in keys if await self.spec(key) is None][:limit]

    async def spec(self, key: str) -> RepeatSpec | None:
        """What is stored under `key`; None when nothing readable is."""
        return _readable(await self._link.call("HGET", self._keys.repeat_spec(key), "spec"))

    async def remove_repeatable(self, key: str) -> bool:
        """Ends the schedule; False when there is none with this key."""
        return await self._link.run(REMOVE_REPEATABLE, self._places(instance("key", key, str)), key) == 1

    async def pause_repeatable(self, key: str) -> bool:
        """Sets the schedule aside until `resume`; False when it is not there or is paused already."""
        keys = [self._keys.repeat, self._keys.repeat_paused]
        return await self._link.run(PAUSE_REPEATABLE, keys, instance("key", key, str), "", "") == 1

    async def resume(self, key: str) -> bool:
        """Takes a paused schedule up again, with its next fire from now; what passed meanwhile was not missed."""
        stored, now_ms = await self._look_up(instance("key", key, str))
        spec = _readable(stored)
        if spec is None:
            return False
        keys = [self._keys.repeat_paused, self._keys.repeat]
        following = Timetable.of(spec).first_fire(now_ms)
        return await self._link.run(PAUSE_REPEATABLE, keys, key, following, "") == 1

    async def recipe(self, key: str) -> RepeatSpec:
        """The schedule's spec, to make a job of it now, apart from its fires."""
        spec = await self.spec(instance("key", key, str))
        if spec is None:
            raise NoSuchSchedule(key=key, queue=self._keys.queue)
        return spec

    async def _look_up(self, key: str) -> tuple[bytes | None, int]:
        """The stored bytes, and the time by the server's clock, which counts the fires: ours may be off."""
        stored, (seconds, micros) = await asyncio.gather(
            self._link.call("HGET", self._keys.repeat_spec(key), "spec"), self._link.call("TIME")
        )
        return stored, int(seconds) * 1000 + int(micros) // 1000

    def _places(self, key: str) -> list[bytes]:
        return [self._keys.repeat, self._keys.repeat_spec(key), self._keys.repeat_paused, self._keys.repeat_declared]


def _readable(stored: bytes | None) -> RepeatSpec | None:
    try:
        return None if stored is None else RepeatSpec.decode(stored)
    except Undecodable:
        return None


def _checked_number(argument: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongType(argument=argument, value=value, expected="int")
    if not 0 <= value < 2**53:  # Redis keeps a schedule's next fire as a double
        remedy = f"Pass a number from 0 to {2**53 - 1}, or None."
        raise BadArgument(argument=argument, value=value, reason="out of range", remedy=remedy)
    return value

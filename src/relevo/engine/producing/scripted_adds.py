"""Sends what is more than a plain add: delayed jobs, ids of the caller, lanes, dedup keys. One pipeline, safe to repeat."""

from __future__ import annotations

import time

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, command
from relevo.broker.scripts import script
from relevo.engine.lanes.lanes import WINDOW as LANE_WINDOW
from relevo.engine.producing.job_encoder import EncodedJob
from relevo.errors import AddUncertain, ConnectionLost, QueueFull, Redirected, ServerRefused
from relevo.wire.delayed import DelayedMember
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import Notes

ADD_ONCE = script("add_once", __name__)
DELAY_ONCE = script("delay_once", __name__)
ADD_NOTED = script("add_noted", __name__)
DEBOUNCE = script("debounce", __name__)

SCRIPTS = (ADD_ONCE, DELAY_ONCE, ADD_NOTED, DEBOUNCE)

ONCE_WINDOW_S = 3600
"""How long an id chosen by the caller is remembered after its job was due: a second add of it within is dropped."""


class ScriptedAdds:
    """Sends jobs that are not plain."""

    def __init__(self, link: Link, keys: QueueKeys, *, cap: int, wait_s: float, group: str = "default") -> None:
        self._link = link
        self._keys = keys
        self._cap = cap
        self._wait_s = wait_s
        self._group = group
        self._repeat_s = 60 + int(wait_s)  # longer than we try

    async def send(self, jobs: list[EncodedJob]) -> None:
        """Sent again after a lost connection: every command may be repeated. A job that gave way to another one under its
        dedup key has that one's id afterwards."""
        link = self._link
        started = time.monotonic()
        tried = False
        while True:
            try:
                await link.ready(wait=max(0.001, self._wait_s - (time.monotonic() - started)))
                if tried:
                    _check_repeatable(jobs)
                tried = True
                once = [each for each in jobs if _is_once(each)]
                others = [each for each in jobs if not _is_once(each)]
                calls = ([self._once_call(once)] if once else []) + [self._call(each) for each in others]
                replies = await link.send(b"".join(calls), len(calls))
                break
            except ConnectionLost as error:
                if link.closed:
                    raise
                if isinstance(error, Redirected) and time.monotonic() - started >= self._wait_s:
                    raise ServerRefused(command="the add", reason=error.fields["reason"]) from error
        link.accepted()
        for encoded, reply in zip(once[:1] + others, replies, strict=True):
            self._note(encoded, link.checked(reply, "the add"))

    def _once_call(self, jobs: list[EncodedJob]) -> bytes:
        """All of them in one call: it finds room for every one or adds none."""
        arguments: list[Argument] = [ONCE_WINDOW_S, self._cap]
        for encoded in jobs:
            arguments += (encoded.envelope, encoded.name)
        places = [self._keys.stream, *(self._keys.once(encoded.job.id) for encoded in jobs)]
        return self._link.script_call(ADD_ONCE, places, arguments)

    def _call(self, encoded: EncodedJob) -> bytes:
        keys, job_id, link = self._keys, encoded.job.id, self._link
        member = DelayedMember(encoded.job.name, encoded.envelope).encode()
        if encoded.dedup is not None and encoded.dedup.kind == "debounce":
            places = [keys.delayed, keys.dedup(encoded.dedup.key)]
            return link.script_call(DEBOUNCE, places, (encoded.run_at or 0, member, encoded.dedup.hold_ms + 1000))
        if encoded.notes is not None or encoded.dedup is not None:
            return self._noted_call(encoded, member)
        assert encoded.run_at is not None, "immediate ones go through `_once_call` or a script above"
        if not encoded.by_id:
            return command("ZADD", keys.delayed, encoded.run_at, member)
        places = [keys.once(job_id), keys.delayed, keys.member_of(job_id)]
        return link.script_call(DELAY_ONCE, places, (_window_s(encoded), encoded.run_at, member))

    def _noted_call(self, encoded: EncodedJob, member: bytes) -> bytes:
        keys, dedup, notes = self._keys, encoded.dedup, encoded.notes or Notes()
        arguments: tuple[Argument, ...] = (
            keys.tag,
            self._group,
            LANE_WINDOW,
            self._cap,
            encoded.job.id,
            _window_s(encoded) if encoded.by_id else self._repeat_s,
            int(encoded.by_id),
            "" if encoded.run_at is None else encoded.run_at,
            member,
            notes.lane or "",
            "" if dedup is None else dedup.key,
            1 if dedup is None else dedup.hold_ms,
            b"" if encoded.notes is None else encoded.notes.encode(),
        )
        return self._link.script_call(ADD_NOTED, [keys.stream, keys.delayed, keys.notes], arguments)

    def _note(self, encoded: EncodedJob, reply: Reply) -> None:
        verdict = reply[0] if isinstance(reply, list) else reply  # pyright: ignore[reportUnknownVariableType]
        if isinstance(verdict, bytes):
            encoded.job.id = verdict.decode()
        elif verdict == -1:
            raise QueueFull(queue=self._keys.queue, length=self._cap, cap=self._cap)
        elif isinstance(verdict, Exception):
            raise ServerRefused(command="the add", reason=str(verdict))


def _is_once(encoded: EncodedJob) -> bool:
    """Whether nothing but its id keeps a job from being a plain add."""
    return encoded.run_at is None and encoded.notes is None and encoded.dedup is None


def _window_s(encoded: EncodedJob) -> int:
    delay_s = 0 if encoded.run_at is None else (encoded.run_at - encoded.job.created_at_ms) // 1000
    return max(1, delay_s) + ONCE_WINDOW_S if encoded.run_at is not None else ONCE_WINDOW_S


def _check_repeatable(jobs: list[EncodedJob]) -> None:
    """A delayed add without an id may be repeated only while it cannot have been promoted yet."""
    soon = time.time_ns() // 1_000_000 + 1000
    for encoded in jobs:
        bare = not encoded.by_id and encoded.notes is None
        if encoded.run_at is not None and bare and encoded.run_at < soon:
            raise AddUncertain(job_id=encoded.job.id)

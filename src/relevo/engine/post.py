"""Sends what is more than a plain add: delayed jobs, ids of the caller, lanes, dedup keys. One pipeline, safe to repeat."""

from __future__ import annotations

import time

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, command
from relevo.broker.scripts import script
from relevo.engine.lanes import WINDOW as LANE_WINDOW
from relevo.engine.parcel import Parcel
from relevo.errors import AddUncertain, ConnectionLost, QueueFull, ServerRefused
from relevo.wire.delayed import DelayedMember
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import Notes

ADD_ONCE = script("add_once")
DELAY_ONCE = script("delay_once")
ADD_NOTED = script("add_noted")
DEBOUNCE = script("debounce")

SCRIPTS = (ADD_ONCE, DELAY_ONCE, ADD_NOTED, DEBOUNCE)

ONCE_WINDOW_S = 3600
"""How long an id chosen by the caller is remembered after its job was due: a second add of it within is dropped."""


class Post:
    """Sends parcels that are not plain."""

    def __init__(self, link: Link, keys: QueueKeys, *, cap: int, wait_s: float, group: str = "default") -> None:
        self._link = link
        self._keys = keys
        self._cap = cap
        self._wait_s = wait_s
        self._group = group
        self._repeat_s = 60 + int(wait_s)  # longer than we try

    async def send(self, parcels: list[Parcel]) -> None:
        """Sent again after a lost connection: every command may be repeated. A job that gave way to another one under its
        dedup key has that one's id afterwards."""
        link = self._link
        started = time.monotonic()
        tried = False
        while True:
            try:
                await link.ready(wait=max(0.001, self._wait_s - (time.monotonic() - started)))
                if tried:
                    _check_repeatable(parcels)
                tried = True
                once = [each for each in parcels if _is_once(each)]
                others = [each for each in parcels if not _is_once(each)]
                calls = ([self._once_call(once)] if once else []) + [self._call(each) for each in others]
                replies = await link.send(b"".join(calls), len(calls))
                break
            except ConnectionLost:
                if link.closed:
                    raise
        for parcel, reply in zip(once[:1] + others, replies, strict=True):
            self._note(parcel, link.checked(reply, "the add"))

    def _once_call(self, parcels: list[Parcel]) -> bytes:
        """All of them in one call: it finds room for every one or adds none."""
        arguments: list[Argument] = [ONCE_WINDOW_S, self._cap]
        for parcel in parcels:
            arguments += (parcel.envelope, parcel.name)
        places = [self._keys.stream, *(self._keys.once(parcel.job.id) for parcel in parcels)]
        return self._link.script_call(ADD_ONCE, places, arguments)

    def _call(self, parcel: Parcel) -> bytes:
        keys, job_id, link = self._keys, parcel.job.id, self._link
        member = DelayedMember(parcel.job.name, parcel.envelope).encode()
        if parcel.dedup is not None and parcel.dedup.kind == "debounce":
            places = [keys.delayed, keys.dedup(parcel.dedup.key)]
            return link.script_call(DEBOUNCE, places, (parcel.run_at or 0, member, parcel.dedup.hold_ms + 1000))
        if parcel.notes is not None or parcel.dedup is not None:
            return self._noted_call(parcel, member)
        assert parcel.run_at is not None, "immediate ones go through `_once_call` or a script above"
        if not parcel.by_id:
            return command("ZADD", keys.delayed, parcel.run_at, member)
        places = [keys.once(job_id), keys.delayed, keys.member_of(job_id)]
        return link.script_call(DELAY_ONCE, places, (_window_s(parcel), parcel.run_at, member))

    def _noted_call(self, parcel: Parcel, member: bytes) -> bytes:
        keys, dedup, notes = self._keys, parcel.dedup, parcel.notes or Notes()
        arguments: tuple[Argument, ...] = (
            keys.tag,
            self._group,
            LANE_WINDOW,
            self._cap,
            parcel.job.id,
            _window_s(parcel) if parcel.by_id else self._repeat_s,
            int(parcel.by_id),
            "" if parcel.run_at is None else parcel.run_at,
            member,
            notes.lane or "",
            "" if dedup is None else dedup.key,
            1 if dedup is None else dedup.hold_ms,
            b"" if parcel.notes is None else parcel.notes.encode(),
        )
        return self._link.script_call(ADD_NOTED, [keys.stream, keys.delayed, keys.notes], arguments)

    def _note(self, parcel: Parcel, reply: Reply) -> None:
        verdict = reply[0] if isinstance(reply, list) else reply  # pyright: ignore[reportUnknownVariableType]
        if isinstance(verdict, bytes):
            parcel.job.id = verdict.decode()
        elif verdict == -1:
            raise QueueFull(queue=self._keys.queue, length=self._cap, cap=self._cap)
        elif isinstance(verdict, Exception):
            raise ServerRefused(command="the add", reason=str(verdict))


def _is_once(parcel: Parcel) -> bool:
    """Whether nothing but its id keeps a job from being a plain add."""
    return parcel.run_at is None and parcel.notes is None and parcel.dedup is None


def _window_s(parcel: Parcel) -> int:
    delay_s = 0 if parcel.run_at is None else (parcel.run_at - parcel.job.created_at_ms) // 1000
    return max(1, delay_s) + ONCE_WINDOW_S if parcel.run_at is not None else ONCE_WINDOW_S


def _check_repeatable(parcels: list[Parcel]) -> None:
    """A delayed add without an id may be repeated only while it cannot have been promoted yet."""
    soon = time.time_ns() // 1_000_000 + 1000
    for parcel in parcels:
        bare = not parcel.by_id and parcel.notes is None
        if parcel.run_at is not None and bare and parcel.run_at < soon:
            raise AddUncertain(job_id=parcel.job.id)

"""How a job is added, apart from its name and data: one set of options for `Queue.add`, tasks, flows and the outbox."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict, cast

import msgspec

from relevo.engine.job.dedup import Dedup
from relevo.wire.backoff import BackoffLike
from relevo.wire.delays import DelayMsLike


class AddKeywords(TypedDict, total=False):
    """`AddOptions` as keyword arguments; what each one means is told by `Queue.add`."""

    delay_ms: DelayMsLike | None
    delay: timedelta | None
    attempts: int | None
    backoff: BackoffLike | None
    job_id: str | None
    lane: str | None
    dedup: Dedup | None


class AddOptions(msgspec.Struct, frozen=True):
    """The options as given, unchecked: `JobEncoder.encode` checks. A Struct, because every add makes one.

    >>> AddOptions(attempts=3).but(lane="tenant", attempts=None).given()
    {'attempts': 3, 'lane': 'tenant'}
    """

    delay_ms: DelayMsLike | None = None
    delay: timedelta | None = None
    attempts: int | None = None
    backoff: BackoffLike | None = None
    job_id: str | None = None
    lane: str | None = None
    dedup: Dedup | None = None

    def but(self, **others: object) -> AddOptions:
        """These options with others instead; None leaves one as it is."""
        return msgspec.structs.replace(self, **{name: value for name, value in others.items() if value is not None})

    def given(self) -> AddKeywords:
        """Those that are not None, to be passed on."""
        every = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return cast("AddKeywords", {name: value for name, value in every if value is not None})


PLAIN = AddOptions()
OPTION_NAMES = frozenset(AddOptions.__struct_fields__)

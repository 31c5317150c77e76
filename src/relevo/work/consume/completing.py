"""What one transaction completes, gathered from all its calls: what is alike goes into the database together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from relevo.work.caller import Caller
from relevo.work.consume.lease_book import Told
from relevo.work.message.history import history_line
from relevo.work.message.standing import claimed_line
from relevo.work.message.transition import COMPLETE
from relevo.work.queue_record import QueueRecord
from relevo.work.store.interface import Completion
from relevo.work.store.lease import Lease
from relevo.work.store.unit_of_work import UnitOfWork


class _Finished:
    """Of one queue what the events say."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.told: list[Told] = []
        self.held_ms: list[int] = []


class Completing:
    """The completions of a transaction, until `write`."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._alike: dict[tuple[str, int, str, bool], Completion] = {}
        self._taken: set[str] = set()
        self._finished: dict[int, _Finished] = {}
        self._audited: list[tuple[Caller, QueueRecord, bool, list[str]]] = []
        self.settled: dict[str, list[str]] = {}
        """By token: what its lease holds no longer once this is committed."""

    def runs(self, lease: Lease) -> bool:
        return lease.until > self._now

    def has(self, message_id: str) -> bool:
        return message_id in self._taken

    def has_none_of(self, ids: Sequence[str], *, distinct: set[str]) -> bool:
        """Whether these messages, whose `distinct` ones are given, may be taken as they are: each once."""
        return len(distinct) == len(ids) and self._taken.isdisjoint(distinct)

    def add(
        self, lease: Lease, claim_no: int, ids: list[str], results: list[str] | None, told: Iterable[Told], by: Caller
    ) -> None:
        """Messages of one lease, none of which is here already."""
        now, key = self._now, (lease.token, claim_no, by.actor, results is not None)
        alike = self._alike.get(key)
        if alike is None:
            lines = claimed_line(lease), history_line(now, COMPLETE.history, by.actor)
            self._alike[key] = Completion(
                lease.token, claim_no, lease.claimed_by, lease.claimed_at, *lines, ids.copy(), results
            )
        else:
            alike.ids.extend(ids)
            if alike.results is not None and results is not None:
                alike.results.extend(results)
        self._taken.update(ids)
        self.settled.setdefault(lease.token, []).extend(ids)
        finished = self._finished.get(lease.queue_id)
        if finished is None:
            finished = self._finished[lease.queue_id] = _Finished()
        finished.ids += ids
        finished.told += told
        finished.held_ms += [max(0, now - lease.claimed_at)] * len(ids)

    def audit(self, caller: Caller, home: QueueRecord, ids: list[str], *, known_queue: bool) -> None:
        """Has the audit say what one call completed."""
        if ids:
            self._audited.append((caller, home, known_queue, ids))

    async def write(self, transaction: UnitOfWork) -> None:
        """The rows, and all that goes with them."""
        if not self._alike:
            return
        await transaction.session.complete(list(self._alike.values()), self._now)
        for queue_id, finished in self._finished.items():
            COMPLETE.add_to(transaction.counters, queue_id, "claimed", len(finished.ids))
            transaction.counters.add(queue_id, "handler_ms", sum(finished.held_ms))
            attempts, types, correlations = (list(map(itemgetter(at), finished.told)) for at in range(3))
            durations = [1000 * each for each in finished.held_ms]
            transaction.tell(
                COMPLETE.event,
                queue_id,
                finished.ids,
                types,
                correlations,
                {"attempt": attempts, "duration_us": durations},
            )
        for caller, home, known_queue, ids in self._audited:
            transaction.audit_messages(caller, COMPLETE.action, home, ids, known_queue=known_queue)


def told_of(ids: Iterable[str], told: Mapping[str, Told]) -> list[Told]:
    return [told[message_id] for message_id in ids]

"""Settlements claims: complete, fail, release, extend; one or many. The token of the claim is the right to do so.

Completing is the hot case and one statement (completing.py). The others hold the rows first and decide over each. A settled row
keeps its token (after fail and release behind a letter), so that the same verdict sent again, because its answer was lost, is
answered as done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from relevo.contract.claims import Settled
from relevo.contract.messages import Refusal
from relevo.errors import ClaimLost, InvalidInput, NotFound, WrongConsumerMode
from relevo.work.broadcast.deliveries import Deliveries
from relevo.work.caller import Caller
from relevo.work.consume.completing import Completing, told_of
from relevo.work.consume.lease_book import GivenLease, LeaseBook
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import EXTEND, Transition
from relevo.work.message.verdict import LETTERS, SettleItem, Verdict, settling_of, wrong_in
from relevo.work.queue_record import QueueRecord
from relevo.work.store.group_commit import GroupCommit, Operation
from relevo.work.store.interface import LockedMessage, QueuePolicy
from relevo.work.store.lease import Lease
from relevo.work.store.unit_of_work import UnitOfWork
from relevo.work.tenancy.queues import Queues

MOST_IN_A_CALL = 1_000


class _Settlement(NamedTuple):
    """One call of `settle`."""

    caller: Caller
    scope: QueueRecord
    """Any queue of the scope: of it only what they share."""
    queue: QueueRecord | None
    items: Sequence[SettleItem]


class _Held(NamedTuple):
    """An item with its row."""

    call: _Settlement
    item: SettleItem
    row: LockedMessage
    rules: QueuePolicy


class Settlements:
    """The settles of an installation."""

    def __init__(
        self, queues: Queues, deliveries: Deliveries, group_commit: GroupCommit, lease_book: LeaseBook
    ) -> None:
        self._lease_book = lease_book
        self._queues = queues
        self._deliveries = deliveries
        self._group_commit = group_commit
        self._steps: dict[Verdict, Operation[_Settlement, list[Settled]]] = {
            "complete": Operation("complete", self._complete),
            "fail": Operation("fail", self._fail),
            "release": Operation("release", self._release),
            "extend": Operation("extend", self._extend),
        }

    async def settle(
        self, caller: Caller, scope: str, verdict: Verdict, items: Sequence[SettleItem], *, queue: str | None = None
    ) -> list[Settled]:
        """Settles; one outcome for each item, in their order: the message's state afterwards, or the `refusal` (`CLAIM_LOST`,
        `NOT_FOUND`, `INVALID_INPUT`) that says why nothing changed. With `queue` a message of another queue is not found.

        The same verdict with the same token once more is answered as done (the first answer may have been lost). Raises what
        concerns the call as a whole: `NotFound` (scope, queue), `PermissionDenied`, `StoreUnavailable`.
        """
        caller.require("consume")
        if not 0 < len(items) <= MOST_IN_A_CALL:
            raise InvalidInput(where="items", reason=f"{len(items)} is not between 1 and {MOST_IN_A_CALL}")
        record = None if queue is None else await self._queues.lookup(caller, scope, queue)
        if record is not None and record.consumer_mode == "broadcast":
            return await self._deliveries.settle(caller, record, verdict, items)
        call = _Settlement(caller, record or await self._queues.scope_of(caller, scope), record, items)
        settled = await self._group_commit.submit(self._steps[verdict], call, weight=len(items))
        return await self._of_broadcasts(call, verdict, settled) if record is None else settled

    async def _of_broadcasts(self, call: _Settlement, verdict: Verdict, settled: list[Settled]) -> list[Settled]:
        """Items whose messages turned out to be of broadcast queues are settled there."""
        elsewhere: dict[int, list[int]] = {}
        for place, outcome in enumerate(settled):
            if outcome.refusal is not None and outcome.refusal.code == _BROADCAST:
                elsewhere.setdefault(int(outcome.refusal.detail), []).append(place)
        for queue_id, places in elsewhere.items():
            record = await self._queues.by_id(queue_id)
            items = [call.items[place] for place in places]
            for place, outcome in zip(
                places, await self._deliveries.settle(call.caller, record, verdict, items), strict=True
            ):
                settled[place] = outcome
        return settled

    # --- complete --------------------------------------------------------------------------------------------------------

    async def _complete(self, transaction: UnitOfWork, calls: Sequence[_Settlement]) -> list[list[Settled]]:
        """What this process gave out and has not settled is completed as it knows it. The rest is looked at before, and so is
        all when that proved wrong."""
        transaction.begun("settle")
        completing = Completing(transaction.now)
        rests = [[*call.items] if transaction.is_unsure else self._take_known(call, completing) for call in calls]
        outcomes: dict[int, Settled] = {}
        tokens = [item.claim_token for rest in rests for item in rest]
        leases = await self._lease_book.of(transaction.session, tokens) if tokens else {}
        for call, rest in zip(calls, rests, strict=True):
            if rest:
                outcomes |= await self._complete_rest(transaction, call, rest, leases, completing)
        await completing.write(transaction)
        if completing.settled:
            await self._let_go(transaction, completing.settled, leases)
        return [[outcomes.get(id(item)) or Settled(item.id, "completed") for item in call.items] for call in calls]

    def _take_known(self, call: _Settlement, completing: Completing) -> list[SettleItem]:
        """Takes what can be completed without a look; returns the others."""
        first = call.items[0].claim_token
        by_token: dict[str, list[SettleItem]] = {}
        if {item.claim_token for item in call.items} == {first}:
            by_token[first] = [*call.items]
        else:
            for item in call.items:
                by_token.setdefault(item.claim_token, []).append(item)
        rest: list[SettleItem] = []
        done: list[str] = []
        for token, items in by_token.items():
            given = self._lease_book.given(token)
            ids = [item.id for item in items]
            if given is None or not _is_usual(call, items, ids, given, completing):
                rest += items
                continue
            for claim_no, results, own in _alike(items, given):
                completing.add(given.lease, claim_no, own, results, told_of(own, given.told), call.caller)
            done += ids
        completing.audit(call.caller, call.queue or call.scope, done, known_queue=call.queue is not None)
        return rest

    async def _settled(
        self, transaction: UnitOfWork, leases: Mapping[str, Lease], pairs: Iterable[tuple[str, str]]
    ) -> None:
        """Lets go of leases that hold nothing more, once these messages, as (token, id), are settled."""
        settled: dict[str, list[str]] = {}
        for token, message_id in pairs:
            settled.setdefault(token, []).append(message_id)
        await self._let_go(transaction, settled, leases)

    async def _let_go(
        self, transaction: UnitOfWork, settled: Mapping[str, list[str]], leases: Mapping[str, Lease]
    ) -> None:
        empty = self._lease_book.empty_after(settled, leases)
        if empty:
            await transaction.session.drop_leases(sorted(empty))
        transaction.on_commit.append(lambda: self._lease_book.settled(settled, empty))

    @staticmethod
    async def _complete_rest(
        transaction: UnitOfWork,
        call: _Settlement,
        items: Sequence[SettleItem],
        leases: Mapping[str, Lease],
        completing: Completing,
    ) -> dict[int, Settled]:
        """Items to look at before: done before, lost, of another process, or claimed more than once."""
        held, outcomes = await _look(transaction, call, items, leases)
        done: list[str] = []
        for each in held:
            row, item, lease = each.row, each.item, each.row.lease
            if lease is not None and not completing.has(row.id):
                result = bytes(item.result).decode()
                told = (row.attempts, row.message_type, row.correlation_id)
                completing.add(lease, row.claim_no, [row.id], [result] if result else None, [told], call.caller)
                done.append(row.id)
            elif lease is None and item.claim_token in leases:
                completing.settled.setdefault(item.claim_token, []).append(row.id)  # the lease holds it no longer
            if lease is not None or (row.claim_token == item.claim_token and row.state == "completed"):
                outcomes[id(item)] = Settled(item.id, "completed")
            else:
                outcomes[id(item)] = Settled(item.id, refusal=_lost(row))
        completing.audit(call.caller, call.queue or call.scope, done, known_queue=call.queue is not None)
        return outcomes

    # --- fail ------------------------------------------------------------------------------------------------------------

    async def _fail(self, transaction: UnitOfWork, calls: Sequence[_Settlement]) -> list[list[Settled]]:
        return [await self._decide(transaction, call, "fail") for call in calls]

    async def _release(self, transaction: UnitOfWork, calls: Sequence[_Settlement]) -> list[list[Settled]]:
        return [await self._decide(transaction, call, "release") for call in calls]

    async def _extend(self, transaction: UnitOfWork, calls: Sequence[_Settlement]) -> list[list[Settled]]:
        return [await self._decide(transaction, call, "extend") for call in calls]

    async def _decide(self, transaction: UnitOfWork, call: _Settlement, verdict: Verdict) -> list[Settled]:
        """Holds the rows, and gives each that is still claimed with its token what the verdict says."""
        transaction.begun("settle")
        leases = await self._lease_book.of(transaction.session, [item.claim_token for item in call.items])
        held, outcomes = await _look(transaction, call, call.items, leases)
        decided: dict[tuple[Transition, QueuePolicy], list[Change]] = {}
        settled: dict[str, Settled] = {}
        for each in held:
            row, item = each.row, each.item
            if row.id in settled and row.lease is not None:
                outcomes[id(item)] = settled[row.id]  # named twice in one call
            elif row.lease is not None:
                transition, change, outcome = settling_of(verdict, row, item, each.rules, transaction.now)
                decided.setdefault((transition, each.rules), []).append(change)
                outcomes[id(item)] = settled[row.id] = outcome
            elif row.state != "claimed" and row.claim_token == LETTERS.get(verdict, "") + item.claim_token[1:]:
                outcomes[id(item)] = Settled(item.id, row.state, visible_at=row.visible_at)  # pyright: ignore[reportArgumentType]
            else:
                outcomes[id(item)] = Settled(item.id, refusal=_lost(row))
        for (transition, home), changes in decided.items():
            await apply(transaction, transition, home, changes, call.caller)
            rows = [(change.row.lease, change) for change in changes if isinstance(change.row, LockedMessage)]
            if transition is EXTEND:
                await _shorten(transaction, [(lease, change) for lease, change in rows if lease is not None])
            else:
                gone = [(lease.token, change.row.id) for lease, change in rows if lease is not None]
                await self._settled(transaction, leases, gone)
        return [outcomes[id(item)] for item in call.items]


_BROADCAST = "BROADCAST"
"""Code of an outcome that never leaves this file: the message's queue has subscriptions, its detail is the queue's id."""


async def _look(
    transaction: UnitOfWork, call: _Settlement, items: Sequence[SettleItem], leases: Mapping[str, Lease]
) -> tuple[list[_Held], dict[int, Settled]]:
    """The items' rows, held, those that the item's lease holds with the lease; and the outcomes of those that are not there
    for this caller."""
    outcomes: dict[int, Settled] = {}
    held: list[_Held] = []
    claims = {item.id: number for item in items if (number := _claim_no(item, leases)) is not None}
    rows = {row.id: row for row in await transaction.session.lock(sorted({item.id for item in items}), claims)}
    rules = await _rules(transaction, rows.values())
    for item in items:
        row = rows.get(item.id)
        wrong = wrong_in(item)
        if wrong is not None:
            outcomes[id(item)] = Settled(item.id, refusal=Refusal(wrong.code, str(wrong)))
        elif row is None or not _is_theirs(call, row, rules):
            missing = NotFound(what="message", name=item.id[:100])
            outcomes[id(item)] = Settled(item.id, refusal=Refusal(missing.code, str(missing)))
        elif rules[row.queue_id].consumer_mode == "broadcast":
            outcomes[id(item)] = Settled(item.id, refusal=Refusal(_BROADCAST, str(row.queue_id)))
        elif item.subscription is not None:
            outcomes[id(item)] = Settled(item.id, refusal=_no_subscriptions(rules[row.queue_id].slug))
        else:
            if row.state == "claimed" and _claim_no(item, leases) == row.claim_no:
                row = row._replace(lease=leases[item.claim_token])
            held.append(_Held(call, item, row, rules[row.queue_id]))
    return held, outcomes


def _claim_no(item: SettleItem, leases: Mapping[str, Lease]) -> int | None:
    lease = leases.get(item.claim_token)
    return None if lease is None else lease.claims.get(item.id)


async def _shorten(transaction: UnitOfWork, changes: Iterable[tuple[Lease, Change]]) -> None:
    """An extension to a time before the lease's end has the lease looked at by then; a longer one is the message's alone."""
    for lease, change in changes:
        if change.columns["claim_until"] < lease.until:
            await transaction.session.shorten_lease(lease.token, change.columns["claim_until"])


async def _rules(transaction: UnitOfWork, rows: Iterable[LockedMessage]) -> dict[int, QueuePolicy]:
    ids = {row.queue_id for row in rows} | {row.origin_queue_id for row in rows if row.origin_queue_id is not None}
    return {each.id: each for each in await transaction.session.policies(sorted(ids))} if ids else {}


def _is_theirs(call: _Settlement, row: LockedMessage, rules: Mapping[int, QueuePolicy]) -> bool:
    """Whether the caller may know of this message: their scope, the queue they named, the queues of their key. A dead letter
    still belongs to the queue it was claimed from."""
    if row.scope_id != call.scope.scope_id:
        return False
    places = {row.queue_id, row.origin_queue_id}
    if call.queue is not None:
        return call.queue.id in places
    if call.caller.queues is None:
        return True
    return any(place is not None and place in rules and rules[place].slug in call.caller.queues for place in places)


def _no_subscriptions(queue: str) -> Refusal:
    error = WrongConsumerMode(queue=queue, mode="competing", remedy="settle without `subscription`")
    return Refusal(error.code, str(error))


def _lost(row: LockedMessage) -> Refusal:
    reason = "somebody else holds it" if row.state == "claimed" else f"it is {row.state}"
    lost = ClaimLost(message_id=row.id, reason=reason)
    return Refusal(lost.code, str(lost))


def _is_usual(
    call: _Settlement, items: Sequence[SettleItem], ids: Sequence[str], given: GivenLease, completing: Completing
) -> bool:
    """Whether these items of one lease may be completed as this process knows them: its lease runs, nothing of it was settled
    before, and whoever asks may settle it. Whether the lease still holds a message its row says, to the statement that
    completes it."""
    lease, distinct = given.lease, set(ids)
    if lease.scope_id != call.scope.scope_id or {item.subscription for item in items} != {None}:
        return False
    if call.queue is not None:
        if call.queue.id != lease.queue_id:
            return False
    elif call.caller.queues is not None and given.queue not in call.caller.queues:
        return False
    return completing.runs(lease) and given.left.issuperset(distinct) and completing.has_none_of(ids, distinct=distinct)


def _alike(items: Sequence[SettleItem], given: GivenLease) -> Iterable[tuple[int, list[str] | None, list[str]]]:
    """Claim number, results and ids of what can be written together."""
    if given.claim_no is not None and not [item for item in items if item.result]:
        return [(given.claim_no, None, [item.id for item in items])]
    claims = given.lease.claims
    plain: dict[int, list[str]] = {}
    told: dict[int, tuple[list[str], list[str]]] = {}
    for item in items:
        claim_no = claims[item.id]
        if item.result:
            results, ids = told.setdefault(claim_no, ([], []))
            results.append(bytes(item.result).decode())
            ids.append(item.id)
        else:
            plain.setdefault(claim_no, []).append(item.id)
    without = [(claim_no, None, ids) for claim_no, ids in plain.items()]
    return [*without, *((claim_no, results, ids) for claim_no, (results, ids) in told.items())]

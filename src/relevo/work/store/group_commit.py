"""Concurrent requests share a transaction: what arrives in one turn of the loop, or during a commit, is committed together.

An answer promises no less for it: a request is answered after the commit that holds it. A request that fails does not fail its
neighbours: the transaction is rolled back and each of them is tried again alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from relevo.errors import StoreUnavailable
from relevo.work.store.unit_of_work import UnitOfWork

log = logging.getLogger("relevo.work")

Request = TypeVar("Request")
Outcome = TypeVar("Outcome")

WORTH_A_TRANSACTION = 8
"""Messages that wait from which on another transaction is begun while one is under way."""

_LONG_S = 0.02
"""How long fewer than that wait at most. A transaction that takes longer waits for something itself, a row that another holds
or a disk: nobody has to wait with it."""


class Operation(Generic[Request, Outcome]):
    """One kind of request: how many of them are carried out together in a transaction. Outcomes in the order of requests."""

    def __init__(self, name: str, run: Callable[[UnitOfWork, Sequence[Request]], Awaitable[list[Outcome]]]) -> None:
        self.name = name
        self.run = run


class _Waiting(NamedTuple):
    operation: Operation[Any, Any]
    request: Any
    weight: int
    future: asyncio.Future[Any]


class GroupCommit:
    """`submit` hands in a request and returns its outcome once it is committed.

    `commit` carries out one transaction and returns what is left to do after it (telling the order index), which happens
    outside the lane, before the answers. `together`: requests of different kinds share a transaction, which pays where there is
    one writer; elsewhere each kind goes on a connection of its own. From `most` on, a transaction is closed for more: it holds
    locks, and its answers wait for all of it.
    """

    def __init__(
        self,
        commit: Callable[[Callable[[UnitOfWork], Awaitable[None]]], Awaitable[Callable[[], Awaitable[None]]]],
        *,
        max_transactions: int,
        together: bool,
        most: int,
    ) -> None:
        self._commit = commit
        self._max_transactions = max_transactions
        self._most = most
        self._together = together
        self._waiting: deque[_Waiting] = deque()
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy = 0

    async def submit(self, operation: Operation[Request, Outcome], request: Request, *, weight: int = 1) -> Outcome:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append(_Waiting(operation, request, weight, future))
        if not self._scheduled and self._busy < self._max_transactions:
            self._scheduled = True
            loop.call_soon(self._flush)
        return await future

    async def close(self) -> None:
        """Lets everything that was handed in come to its end."""
        while self._tasks or self._waiting:
            with contextlib.suppress(Exception):
                await asyncio.sleep(0)
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def _flush(self, *, at_once: bool = False) -> None:
        self._scheduled = False
        while self._waiting and self._busy < self._max_transactions:
            if self._busy and not at_once and not self._is_worth_a_transaction():
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(_LONG_S, self._wait_no_longer)
                return
            batch = self._next_batch()
            if not batch:
                return
            self._busy += 1
            task = asyncio.get_running_loop().create_task(self._carry_out(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _wait_no_longer(self) -> None:
        self._timer = None
        self._flush(at_once=True)

    def _is_worth_a_transaction(self) -> bool:
        """Whether enough waits for a transaction beside those under way. A few requests that wait for the end of one share the
        next with all that come meanwhile: less work for all than a transaction for each handful."""
        weight = 0
        for each in self._waiting:
            weight += each.weight
            if weight >= WORTH_A_TRANSACTION:
                return True
        return False

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        others: list[_Waiting] = []
        weight = 0
        while self._waiting and weight < self._most:
            each = self._waiting.popleft()
            if each.future.done():  # its caller has gone: nothing was begun
                continue
            if batch and not self._together and each.operation is not batch[0].operation:
                others.append(each)
                continue
            batch.append(each)
            weight += each.weight
        self._waiting.extendleft(reversed(others))
        return batch

    async def _carry_out(self, batch: list[_Waiting]) -> None:
        outcomes: list[Any] = []
        try:
            after = await self._commit(lambda transaction: self._run(transaction, batch, outcomes))
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to whoever waits
            self._free_transaction()
            if len(batch) == 1 or isinstance(error, StoreUnavailable):
                for each in batch:
                    _fail(each.future, error)
            else:
                for each in batch:
                    await self._alone(each)
            return
        except BaseException:
            self._free_transaction()
            raise
        self._free_transaction()
        await _told(after)
        for each, outcome in zip(batch, outcomes, strict=True):
            if not each.future.done():
                each.future.set_result(outcome)

    def _free_transaction(self) -> None:
        self._busy -= 1
        if self._waiting:
            self._flush()

    async def _alone(self, each: _Waiting) -> None:
        outcomes: list[Any] = []
        try:
            after = await self._commit(lambda transaction: self._run(transaction, [each], outcomes))
            await _told(after)
        except Exception as error:  # noqa: BLE001 - as above
            _fail(each.future, error)
        else:
            if not each.future.done():
                each.future.set_result(outcomes[0])

    @staticmethod
    async def _run(transaction: UnitOfWork, batch: list[_Waiting], outcomes: list[Any]) -> None:
        outcomes.clear()  # a transaction may be run again
        operations = dict.fromkeys(each.operation for each in batch)
        if len(operations) == 1:
            outcomes.extend(await batch[0].operation.run(transaction, [each.request for each in batch]))
            return
        found: dict[Operation[Any, Any], deque[Any]] = {}
        for operation in operations:
            found[operation] = deque(
                await operation.run(transaction, [each.request for each in batch if each.operation is operation])
            )
        outcomes.extend(found[each.operation].popleft() for each in batch)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


async def _told(after: Callable[[], Awaitable[None]]) -> None:
    """What follows a commit is a hint to others; what was committed is answered whatever becomes of it."""
    try:
        await after()
    except Exception:
        log.exception("nobody was told of a commit; whoever waits for its messages finds them at its next look")

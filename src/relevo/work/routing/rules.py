"""The rules of a scope as rows: made, changed, listed; and as everything else asks for them, from a cache.

A scope without rules costs its publishers one look into a dictionary. The breaker of a rule lives in its row, so that all
processes see the same; how often a rule matched is counted here and written now and then, because a row that every publish
writes to would make publishers wait for each other.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from relevo.contract.messages import NewMessage
from relevo.contract.pages import Page
from relevo.contract.rules import BreakerState, Trigger
from relevo.errors import BadReviewSpec, BadRule, NotFound, RelevoError, SlugTaken
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.message.system_messages import post
from relevo.work.pagination import Listing
from relevo.work.queue_record import QueueRecord
from relevo.work.review.patterns import Patterns
from relevo.work.routing.breaker import Breaker
from relevo.work.routing.rule import Drop, Escalate, Rule, decode_rule, encode_rule
from relevo.work.routing.targets import Targets
from relevo.work.store.cache import SingleFlightCache
from relevo.work.store.database import Database
from relevo.work.store.tables import queues, rules
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.queues import CACHED_MS, DEAD_LETTER, Queues, require_scope
from relevo.work.tenancy.tenants import require_slug
from relevo.work.tenancy.trusts import Trusts

log = logging.getLogger("relevo.work.routing")

MOST_RULES = 500
COUNTED_MS = 1_000
_OVER = ("message_completed", "review_decided")


class StoredRule(msgspec.Struct, kw_only=True):
    """A rule with its row: how often it matched, and how its breaker stands."""

    id: str
    scope_id: int
    rule: Rule
    breaker: Breaker
    breaker_state: BreakerState
    matched: int
    failed: int
    created_at: int
    updated_at: int


class RuleSet(msgspec.Struct, frozen=True):
    """The rules of one scope that are enabled, in their order, by trigger; and the scopes that let its messages in."""

    by_trigger: Mapping[str, Sequence[StoredRule]]
    trusted_by: frozenset[int]


_NONE = RuleSet({}, frozenset())


_LISTING = Listing("rules", position=rules.c.position, name=rules.c.name)


class Rules:
    """The rules of an installation."""

    def __init__(
        self,
        transactions: Transactions,
        database: Database,
        queues: Queues,
        targets: Targets,
        trusts: Trusts,
        patterns: Patterns,
        mint: IdMint,
        now_ms: Clock,
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues
        self._targets = targets
        self._trusts = trusts
        self._patterns = patterns
        self._mint = mint
        self._now_ms = now_ms
        self._known = SingleFlightCache(self._look, now_ms=self._now_ms, kept_ms=CACHED_MS)
        self._matched: Counter[str] = Counter()
        self._counted_at = 0
        self._queues.changed.listen(lambda _: self._known.forget_all())

    # --- for the router --------------------------------------------------------------------------------------------------

    def known(self, scope_id: int) -> RuleSet | None:
        """The rules as they were less than a second ago, if somebody asked then."""
        return self._known.peek(scope_id, None)

    async def of(self, scope_id: int) -> RuleSet:
        """The rules as they are, or were less than a second ago."""
        return await self._known.of(scope_id)

    async def _look(self, scope_id: int) -> RuleSet:
        mine = select(rules).where(rules.c.scope_id == scope_id, rules.c.enabled == 1)
        async with self._database.connect() as connection:
            rows = (await connection.execute(mine.order_by(rules.c.position, rules.c.name))).mappings().all()
        found = _NONE
        if rows:
            now, by_trigger = self._now_ms(), dict[str, list[StoredRule]]()
            for row in rows:
                by_trigger.setdefault(row["trigger_on"], []).append(_stored(row, now))
            found = RuleSet(by_trigger, await self._trusts.trusted_by(scope_id))
        return found

    def matched(self, rule_id: str) -> None:
        self._matched[rule_id] += 1

    async def write_counts(self, *, at_once: bool = False) -> None:
        """Writes how often rules matched, once a second at most. A process that is killed takes the last second's with it."""
        now = self._now_ms()
        if not self._matched or (not at_once and 0 <= now - self._counted_at < COUNTED_MS):
            return
        self._counted_at = now
        counts, self._matched = self._matched, Counter()
        if counts:
            adding = update(rules).where(rules.c.id == bindparam("_id"))
            values = [{"_id": rule_id, "_by": by} for rule_id, by in sorted(counts.items())]
            async with self._database.begin() as connection:
                await connection.execute(adding.values(matched=rules.c.matched + bindparam("_by")), values)

    async def note(self, stored: StoredRule, failure: str | None, *, count: int = 1, example: str = "") -> None:
        """How a rule did: what was wrong, and how often, or None. The one failure too many opens its breaker, and is told in
        the scope's `_integrity`."""
        if failure is None and stored.breaker.opened_at is None:
            return
        caller = Caller.system("router")

        async def write(transaction: SqlUnitOfWork) -> bool:
            held = transaction.held(select(rules).where(rules.c.id == stored.id), wait=True)
            row = (await transaction.connection.execute(held)).mappings().one_or_none()
            if row is None:
                return False
            breaker = msgspec.json.decode(row["breaker"], type=Breaker)
            breaker.trying = stored.breaker.trying
            opened = False
            if failure is None:
                breaker.succeeded(transaction.now)
            else:
                for _ in range(min(count, breaker.limit)):
                    opened = breaker.failed(transaction.now, failure[:500]) or opened
            values: dict[str, Any] = {"breaker": msgspec.json.encode(breaker).decode()}
            if failure is not None:
                values["failed"] = rules.c.failed + count
            await transaction.connection.execute(update(rules).where(rules.c.id == stored.id).values(values))
            if opened:
                body = {"kind": "rule_set_aside", "rule": stored.rule.name, "error": failure, "message_id": example}
                await self._find(transaction, caller, row["scope_id"], "found.rule_set_aside", body)
            return opened

        if await self._transactions.run(write):
            log.warning(
                "the rule %s is set aside for a while: %s",
                stored.rule.name,
                failure,
                extra={"event": "rule_set_aside", "rule": stored.rule.name, "message_id": example},
            )
        self._known.forget(stored.scope_id)

    async def find(self, scope_id: int, kind: str, body: dict[str, Any]) -> None:
        """Puts a finding of the router into a scope's `_integrity`."""
        caller = Caller.system("router")
        await self._transactions.run(
            lambda each: self._find(each, caller, scope_id, f"found.{kind}", {"kind": kind, **body})
        )
        log.warning("routing: %s %s", kind, body, extra={"event": kind, **body})

    async def _find(
        self, transaction: SqlUnitOfWork, caller: Caller, scope_id: int, message_type: str, body: dict[str, Any]
    ) -> None:
        home = await self._system_queue(scope_id, "_integrity")
        raw = msgspec.Raw(msgspec.json.encode({**body, "at": transaction.now}))
        new = NewMessage(body=raw, message_type=message_type, source_type="agent", source_id=caller.actor)
        await post(transaction, self._mint, caller, home, [new])

    async def _system_queue(self, scope_id: int, slug: str) -> QueueRecord:
        wanted = select(queues.c.id).where(queues.c.scope_id == scope_id, queues.c.slug == slug)
        async with self._database.connect() as connection:
            queue_id = (await connection.execute(wanted)).scalar_one()
        return await self._queues.by_id(queue_id)

    # --- for people ------------------------------------------------------------------------------------------------------

    async def create(self, caller: Caller, scope: str, rule: Rule) -> StoredRule:
        """Saves a rule that could work: its expressions compile, its targets are there."""
        caller.require("manage")
        await self.check(caller, scope, rule)
        definition = encode_rule(rule).decode()

        async def save(transaction: SqlUnitOfWork) -> StoredRule:
            connection = transaction.connection
            owner = await require_scope(connection, caller.tenant_id, scope, lock=True)
            existing = (await connection.execute(select(rules.c.id).where(rules.c.scope_id == owner["id"]))).all()
            if len(existing) >= MOST_RULES:
                raise BadRule(rule=rule.name, reason=f"the scope has {MOST_RULES} rules, which is the limit")
            row: dict[str, Any] = {
                "id": self._mint(),
                "tenant_id": caller.tenant_id,
                "scope_id": owner["id"],
                "name": rule.name,
                "breaker": msgspec.json.encode(Breaker()).decode(),
                "matched": 0,
                "failed": 0,
                "created_at": transaction.now,
                "updated_at": transaction.now,
                **_columns(rule, definition),
            }
            await connection.execute(insert(rules).values(row))
            transaction.audit(caller, "rule.create", rule.name, scope_id=owner["id"], after=definition)
            return _stored(row, transaction.now)

        try:
            made = await self._transactions.run(save)
        except IntegrityError as error:
            raise SlugTaken(what="rule", slug=rule.name) from error
        self._queues.tell(caller.tenant_id)
        return made

    async def change(self, caller: Caller, scope: str, name: str, rule: Rule) -> StoredRule:
        """Puts another definition in the place of a rule's; its breaker begins anew. The name stays."""
        caller.require("manage")
        await self._queues.scope_of(caller, scope)  # before anything else: a stranger learns nothing
        if rule.name != name:
            raise BadRule(rule=name, reason=f"it cannot be renamed to {rule.name!r}: make a new rule instead")
        await self.check(caller, scope, rule)
        definition = encode_rule(rule).decode()
        values = {"breaker": msgspec.json.encode(Breaker()).decode(), **_columns(rule, definition)}
        return await self._rewrite(caller, scope, name, "rule.change", values, after=definition)

    async def reset(self, caller: Caller, scope: str, name: str) -> StoredRule:
        """Closes a rule's breaker by hand."""
        caller.require("manage")
        values = {"breaker": msgspec.json.encode(Breaker()).decode()}
        return await self._rewrite(caller, scope, name, "rule.reset", values)

    async def _rewrite(
        self, caller: Caller, scope: str, name: str, action: str, values: dict[str, Any], *, after: str | None = None
    ) -> StoredRule:
        async def save(transaction: SqlUnitOfWork) -> StoredRule:
            row = await self._held(transaction, caller, scope, name)
            changed = {**values, "updated_at": transaction.now}
            await transaction.connection.execute(update(rules).where(rules.c.id == row["id"]).values(changed))
            before = row["definition"] if after is not None else row["breaker"]
            transaction.audit(
                caller, action, name, scope_id=row["scope_id"], before=before, after=after or values["breaker"]
            )
            return _stored({**row, **changed}, transaction.now)

        changed = await self._transactions.run(save)
        self._queues.tell(caller.tenant_id)
        return changed

    async def delete(self, caller: Caller, scope: str, name: str) -> None:
        caller.require("manage")

        async def forget(transaction: SqlUnitOfWork) -> None:
            row = await self._held(transaction, caller, scope, name)
            await transaction.connection.execute(delete(rules).where(rules.c.id == row["id"]))
            transaction.audit(caller, "rule.delete", name, scope_id=row["scope_id"], before=row["definition"])

        await self._transactions.run(forget)
        self._queues.tell(caller.tenant_id)

    async def get(self, caller: Caller, scope: str, name: str) -> StoredRule:
        found = await self._read(caller, scope, rules.c.name == name, limit=1, cursor=None)
        if not found.items:
            raise NotFound(what="rule", name=name)
        return found.items[0]

    async def list(
        self, caller: Caller, scope: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[StoredRule]:
        """The rules of a scope in the order in which they are asked, with how they stand now."""
        return await self._read(caller, scope, limit=limit, cursor=cursor)

    async def _read(
        self, caller: Caller, scope: str, *only: ColumnElement[bool], limit: int, cursor: str | None
    ) -> Page[StoredRule]:
        caller.require("view", scope)
        await self.write_counts(at_once=True)
        async with self._database.connect() as connection:
            owner = await require_scope(connection, caller.tenant_id, scope)
            query, now = select(rules).where(rules.c.scope_id == owner["id"], *only), self._now_ms()

            def shown(row: Any) -> StoredRule:
                return _stored(row, now)

            return await _LISTING.page(connection, query, shown, limit=limit, cursor=cursor)

    async def check(self, caller: Caller, scope: str, rule: Rule) -> None:
        """`BadRule` says what is wrong with a rule, before it is saved."""
        require_slug(rule.name, "rule")
        home = await self._queues.lookup(_whole(caller, scope), scope, DEAD_LETTER)
        rule.checked()
        for problem in _misfits(rule):
            raise BadRule(rule=rule.name, reason=problem)
        try:
            if rule.queue is not None and (await self._queues.lookup(caller, scope, rule.queue)).system:
                raise BadRule(rule=rule.name, reason=f"{rule.queue} is a queue of the scope itself: rules look at none")
            for route in rule.targets():
                await self._targets.find(home, route, await self._trusts.trusted_by(home.scope_id))
            for action in rule.actions:
                if isinstance(action, Escalate) and action.review is not None:
                    await self._patterns.check(caller, scope, action.review)
        except BadReviewSpec as error:
            raise BadRule(rule=rule.name, reason=error.reason) from None
        except BadRule:
            raise
        except RelevoError as error:
            raise BadRule(rule=rule.name, reason=str(error).rstrip(".")) from None

    async def _held(self, transaction: SqlUnitOfWork, caller: Caller, scope: str, name: str) -> Any:
        caller.require_sight(scope)
        owner = await require_scope(transaction.connection, caller.tenant_id, scope)
        mine = select(rules).where(rules.c.scope_id == owner["id"], rules.c.name == name)
        row = (await transaction.connection.execute(transaction.held(mine, wait=True))).mappings().one_or_none()
        if row is None:
            raise NotFound(what="rule", name=name)
        return row


def _misfits(rule: Rule) -> Sequence[str]:
    """What cannot be done, though each action by itself could."""
    to_stream = any(route.stream_queue is not None and not route.copy for route in rule.targets())
    if to_stream and any(isinstance(action, Escalate) and action.review is not None for action in rule.actions):
        return ("a message cannot wait for a person and be a job at once: route it after the review is decided",)
    if rule.trigger not in _OVER:
        return ()
    if any(isinstance(action, Drop) for action in rule.actions):
        return (f"a message is over at {rule.trigger}: it cannot be dropped any more",)
    if any(isinstance(action, Escalate) for action in rule.actions):
        return (f"a message is over at {rule.trigger}: it cannot be escalated any more; route a copy instead",)
    return ()


def _whole(caller: Caller, scope: str) -> Caller:
    caller.require_sight(scope)
    return msgspec.structs.replace(caller, queues=None)


def _columns(rule: Rule, definition: str) -> dict[str, Any]:
    return {
        "position": rule.position,
        "trigger_on": rule.trigger,
        "enabled": int(rule.enabled),
        "definition": definition,
    }


def _stored(row: Any, now: int) -> StoredRule:
    breaker = msgspec.json.decode(row["breaker"], type=Breaker)
    return StoredRule(
        id=row["id"],
        scope_id=row["scope_id"],
        rule=decode_rule(row["definition"]),
        breaker=breaker,
        breaker_state=breaker.state(now),
        matched=row["matched"],
        failed=row["failed"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


TRIGGER_OF: Mapping[str, Trigger] = {
    "completed": "message_completed",
    "failed": "message_failed",
    "expired": "message_expired",
    "dead_lettered": "message_dead",
    "review_decided": "review_decided",
}
"""The events that rules wait for. `message_published` is decided before there is an event."""

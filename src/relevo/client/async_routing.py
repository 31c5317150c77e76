"""Routing for asyncio: rules, dry runs, trust between scopes. sync_routing.py is made from this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from relevo.client.async_sender import AsyncSender
from relevo.client.request import Call, at
from relevo.contract.pages import Page
from relevo.contract.rules import StoredRule, Tried
from relevo.contract.scopes import Trust


class AsyncRouting(AsyncSender):
    """The rules of a scope. A rule is a mapping: name, trigger, condition (CEL), actions, position, enabled, queue."""

    async def rules(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[StoredRule]:
        """In the order in which they are asked."""
        question = {"limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "rules"), Page[StoredRule], question=question))

    async def rule(self, scope: str, rule: str) -> StoredRule:
        return await self.send(Call("GET", at("scopes", scope, "rules", rule), StoredRule))

    async def create_rule(self, scope: str, rule: Mapping[str, Any]) -> StoredRule:
        return await self.send(Call("POST", at("scopes", scope, "rules"), StoredRule, dict(rule), once=True))

    async def change_rule(self, scope: str, rule: Mapping[str, Any]) -> StoredRule:
        """Replaces the rule of the same name."""
        return await self.send(Call("PUT", at("scopes", scope, "rules", str(rule["name"])), StoredRule, dict(rule)))

    async def reset_rule(self, scope: str, rule: str) -> StoredRule:
        """Closes its breaker."""
        return await self.send(Call("POST", at("scopes", scope, "rules", rule, "reset"), StoredRule, once=True))

    async def delete_rule(self, scope: str, rule: str) -> None:
        await self.send(Call[None]("DELETE", at("scopes", scope, "rules", rule), None, safe=False))

    async def try_rule(
        self,
        scope: str,
        rule: Mapping[str, Any],
        queue: str,
        *,
        body: Any = UNSET,
        labels: Mapping[str, str] | None = None,
        message_type: str | None = None,
        last: int | None = None,
    ) -> list[Tried]:
        """What a rule would do with `body`, or with the `last` messages of the queue. Nothing is changed."""
        options: dict[str, Any] = {} if body is UNSET else {"body": body}
        asked = {"labels": labels, "message_type": message_type, "last": last}
        options |= {name: value for name, value in asked.items() if value is not None}
        body = {"rule": dict(rule), "queue": queue, **options}
        return await self.send(Call("POST", at("scopes", scope, "rule-dry-runs"), list[Tried], body))

    async def trusts(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Trust]:
        """The scopes whose messages may be routed into this one."""
        question = {"limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "trusts"), Page[Trust], question=question))

    async def trust(self, scope: str, trusted: str) -> Trust:
        return await self.send(Call("PUT", at("scopes", scope, "trusts", trusted), Trust))

    async def distrust(self, scope: str, trusted: str) -> None:
        await self.send(Call[None]("DELETE", at("scopes", scope, "trusts", trusted), None, safe=False))

"""The client without asyncio. Made from async_routing.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from relevo.client.request import Call, at
from relevo.client.sync_sender import Sender
from relevo.contract.pages import Page
from relevo.contract.rules import StoredRule, Tried
from relevo.contract.scopes import Trust


class Routing(Sender):
    """The rules of a scope. A rule is a mapping: name, trigger, condition (CEL), actions, position, enabled, queue."""

    def rules(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[StoredRule]:
        """In the order in which they are asked."""
        question = {"limit": limit, "cursor": cursor}
        return self.send(Call("GET", at("scopes", scope, "rules"), Page[StoredRule], question=question))

    def rule(self, scope: str, rule: str) -> StoredRule:
        return self.send(Call("GET", at("scopes", scope, "rules", rule), StoredRule))

    def create_rule(self, scope: str, rule: Mapping[str, Any]) -> StoredRule:
        return self.send(Call("POST", at("scopes", scope, "rules"), StoredRule, dict(rule), once=True))

    def change_rule(self, scope: str, rule: Mapping[str, Any]) -> StoredRule:
        """Replaces the rule of the same name."""
        return self.send(Call("PUT", at("scopes", scope, "rules", str(rule["name"])), StoredRule, dict(rule)))

    def reset_rule(self, scope: str, rule: str) -> StoredRule:
        """Closes its breaker."""
        return self.send(Call("POST", at("scopes", scope, "rules", rule, "reset"), StoredRule, once=True))

    def delete_rule(self, scope: str, rule: str) -> None:
        self.send(Call[None]("DELETE", at("scopes", scope, "rules", rule), None, safe=False))

    def try_rule(
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
        return self.send(Call("POST", at("scopes", scope, "rule-dry-runs"), list[Tried], body))

    def trusts(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Trust]:
        """The scopes whose messages may be routed into this one."""
        question = {"limit": limit, "cursor": cursor}
        return self.send(Call("GET", at("scopes", scope, "trusts"), Page[Trust], question=question))

    def trust(self, scope: str, trusted: str) -> Trust:
        return self.send(Call("PUT", at("scopes", scope, "trusts", trusted), Trust))

    def distrust(self, scope: str, trusted: str) -> None:
        self.send(Call[None]("DELETE", at("scopes", scope, "trusts", trusted), None, safe=False))

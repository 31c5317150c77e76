"""The client without asyncio. Made from async_routing.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from relevo.client import people_calls
from relevo.client.sync_sender import Sender
from relevo.contract.rules import StoredRule, Tried
from relevo.contract.scopes import Trust


class Routing(Sender):
    """The rules of a scope. A rule is a mapping: name, trigger, condition (CEL), actions, position, enabled, queue."""

    def rules(self, scope: str) -> list[StoredRule]:
        """In the order in which they are asked."""
        return self.send(people_calls.rules(scope))

    def rule(self, scope: str, rule: str) -> StoredRule:
        return self.send(people_calls.rule(scope, rule))

    def create_rule(self, scope: str, rule: Mapping[str, Any]) -> StoredRule:
        return self.send(people_calls.create_rule(scope, rule))

    def change_rule(self, scope: str, rule: Mapping[str, Any]) -> StoredRule:
        """Replaces the rule of the same name."""
        return self.send(people_calls.change_rule(scope, str(rule["name"]), rule))

    def reset_rule(self, scope: str, rule: str) -> StoredRule:
        """Closes its breaker."""
        return self.send(people_calls.reset_rule(scope, rule))

    def delete_rule(self, scope: str, rule: str) -> None:
        self.send(people_calls.delete_rule(scope, rule))

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
        return self.send(people_calls.try_rule(scope, rule, queue, options))

    def trusts(self, scope: str) -> list[Trust]:
        """The scopes whose messages may be routed into this one."""
        return self.send(people_calls.trusts(scope))

    def trust(self, scope: str, trusted: str) -> Trust:
        return self.send(people_calls.trust(scope, trusted))

    def distrust(self, scope: str, trusted: str) -> None:
        self.send(people_calls.distrust(scope, trusted))

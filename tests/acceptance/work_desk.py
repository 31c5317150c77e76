"""`relevo work …` as a user types it, on a `relevo serve` that runs."""

from __future__ import annotations

import uuid

from tests.support.command_line import Said, call
from tests.support.serve_process import ServeProcess


class WorkDesk:
    """The commands of one test, `desk("publish", desk.scope, "invoices", "{}")`, with a scope of its own and a queue in it."""

    def __init__(self, served: ServeProcess) -> None:
        self.served = served
        self.scope = f"s{uuid.uuid4().hex[:10]}"
        self.done("create-scope", self.scope)
        self.done("create-queue", self.scope, "invoices")

    def __call__(self, *arguments: str, stdin: str = "", key: str | None = None) -> Said:
        return call("work", "--url", self.served.url, "--key", key or self.served.key, *arguments, stdin=stdin)

    def done(self, *arguments: str, stdin: str = "") -> Said:
        """As a call, and it has to go well."""
        said = self(*arguments, stdin=stdin)
        assert said.code == 0, said.err
        return said

    def refused(self, *arguments: str) -> str:
        """What a call that must go wrong says: one line, and nothing for programs. SCOPE stands for the desk's own."""
        said = self(*(self.scope if each == "SCOPE" else each for each in arguments))
        assert said.out == ""
        return said.refusal()

    def published(self, body: str = '{"order": 17}', *options: str) -> str:
        return self.done("publish", self.scope, "invoices", body, *options, "--json").data["id"]

    def claimed(self) -> tuple[str, str]:
        """Id and token of the next message."""
        (message,) = self.done("claim", self.scope, "invoices", "--json").data
        return message["id"], message["claim_token"]

    def held(self) -> tuple[str, str]:
        """Id and token of a message that was just published and claimed."""
        message_id = self.published()
        held = self.claimed()
        assert held[0] == message_id
        return held

    def dead(self, reason: str = "no such customer") -> str:
        """Id of a dead letter."""
        message_id, token = self.held()
        self.done("fail", self.scope, message_id, token, reason, "--dead")
        return message_id

    def shown(self, message_id: str) -> dict[str, object]:
        return self.done("show", self.scope, message_id, "--json").data

    def state(self, message_id: str) -> object:
        return self.shown(message_id)["state"]

"""`relevo work rules|reviews|schemas|webhooks|grants|erase`: as tables for people and as JSON for programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.work_desk import WorkDesk
from tests.support.serve_process import ServeProcess

DROP = {"name": "late", "trigger": "message_published", "condition": "body.late", "actions": [{"action": "drop"}]}


@pytest.fixture
def desk(served: ServeProcess) -> WorkDesk:
    return WorkDesk(served)


def written(folder: Path, content: Any) -> str:
    file = folder / "given.json"
    file.write_text(json.dumps(content))
    return str(file)


def test_a_rule_is_tried_set_switched_and_deleted(desk: WorkDesk, tmp_path: Path) -> None:
    file, scope = written(tmp_path, DROP), desk.scope
    desk.published('{"late": true}')
    (told,) = desk.done("rules", "try", scope, file, "invoices", "--body", '{"late": true}', "--json").data
    assert (told["matches"], told["ending"]) == (True, "dropped")
    assert "dropped" in desk.done("rules", "try", scope, file, "invoices", "--last", "5").out
    assert desk.done("rules", "set", scope, file).out == f"rule {scope}/late saved, enabled\n"
    assert desk.done("rules", "set", scope, "-", stdin=json.dumps(DROP | {"position": 5})).code == 0
    (listed,) = desk.done("rules", "list", scope, "--json").data
    assert (listed["rule"]["position"], listed["breaker"]) == (5, "closed")
    assert desk.done("rules", "disable", scope, "late").out == f"rule {scope}/late disabled\n"
    assert "off" in desk.done("rules", "list", scope).out
    desk.done("rules", "enable", scope, "late")
    assert "breaker closed" in desk.done("rules", "show", scope, "late").out
    assert "is closed" in desk.done("rules", "reset", scope, "late").out
    desk.done("rules", "delete", scope, "late", "--yes")
    assert desk.done("rules", "list", scope).out == f"no rules in {scope}\n"


def test_a_rule_that_cannot_work_is_said_with_its_reason(desk: WorkDesk, tmp_path: Path) -> None:
    said = desk("rules", "set", desk.scope, written(tmp_path, DROP | {"condition": "body."}))
    assert (said.code, said.out) == (1, "")
    assert "body." in said.err


def test_a_dead_letter_is_reviewed_from_the_terminal(desk: WorkDesk) -> None:
    scope, message_id = desk.scope, desk.dead()
    sent = desk.done("reviews", "send", scope, message_id, "--json").data
    assert sent["title"] in desk.done("reviews", "list", scope).out
    assert "Why it died" in desk.done("reviews", "show", scope, sent["id"]).out
    assert "held by" in desk.done("reviews", "claim", scope, sent["id"]).out
    desk.done("reviews", "comment", scope, sent["id"], "asked the customer")
    desk.done("reviews", "hand-over", scope, sent["id"], "grace")
    refused = desk("reviews", "release", scope, sent["id"])
    assert (refused.code, "grace" in refused.err) == (1, True)
    assert [each["id"] for each in desk.done("reviews", "list", scope, "--state", "held", "--json").data] == [
        sent["id"]
    ]


def test_a_review_is_decided_with_fields_and_a_corrected_body(desk: WorkDesk) -> None:
    scope, message_id = desk.scope, desk.dead()
    spec = {"title": "And now?", "may_correct": True, "input": [{"field": "refund", "kind": "number"}]}
    sent = desk.done("reviews", "send", scope, message_id, "--review", json.dumps(spec), "--json").data
    decision = ("--field", "refund=5", "--body", '{"order": 18}', "--comment", "a slip")
    said = desk.done("reviews", "decide", scope, sent["id"], "approve", *decision, "--json")
    assert said.data["outcome"] == {"decision": "approve", "refund": 5, "comment": "a slip"}
    assert desk.shown(message_id)["body"] == {"order": 18}
    assert "outcome" in desk.done("reviews", "show", scope, sent["id"]).out


def test_schemas_are_added_checked_bound_and_deleted(desk: WorkDesk, tmp_path: Path) -> None:
    scope, file = desk.scope, written(tmp_path, {"type": "object", "required": ["amount"]})
    desk.published("{}")
    assert desk.done("schemas", "add", scope, "invoice", file).out == f"schema {scope}/invoice saved as version 1\n"
    checked = desk("schemas", "check", scope, "invoice", "invoices")
    assert (checked.code, "1 would be refused" in checked.out) == (1, True)
    assert desk("schemas", "bind", scope, "invoices", "invoice").code == 1
    assert "must match invoice" in desk.done("schemas", "bind", scope, "invoices", "invoice", "--force").out
    assert desk("publish", scope, "invoices", "{}").code == 1
    desk.done("schemas", "unbind", scope, "invoices")
    assert desk.done("schemas", "show", scope, "invoice").data["required"] == ["amount"]
    assert "invoice" in desk.done("schemas", "list", scope).out
    desk.done("schemas", "delete", scope, "invoice", "--yes")
    assert desk.done("schemas", "list", scope, "--json").data == []


def test_a_webhook_is_made_listed_switched_and_deleted(desk: WorkDesk) -> None:
    scope = desk.scope
    made = desk.done("webhooks", "create", scope, "https://example.org/hook", "--event", "completed", "--json").data
    webhook = made["webhook"]["id"]
    listed = desk.done("webhooks", "list", scope).out
    assert "https://example.org/hook" in listed
    assert made["secret"] not in listed
    assert "shown only now" in desk.done("webhooks", "rotate", scope, webhook).out
    assert desk.done("webhooks", "switch", scope, webhook, "disabled").out == f"webhook {webhook} is disabled\n"
    assert desk.done("webhooks", "log", scope, webhook).out == "no deliveries yet\n"
    assert desk("webhooks", "redeliver", scope, webhook, webhook).code == 1
    desk.done("webhooks", "delete", scope, webhook, "--yes")
    assert desk.done("webhooks", "list", scope, "--json").data == []


def test_grants_are_given_listed_and_taken(desk: WorkDesk) -> None:
    scope = desk.scope
    key = desk.done("keys", "create", "one", "--may", "view", "--json").data["key"]["id"]
    given = desk.done("grants", "give", scope, key, "--may", "publish", "--queue", "invoices", "--json")
    granted = given.data
    assert (granted["queue"], granted["permissions"]) == ("invoices", ["publish"])
    assert key in desk.done("grants", "list", scope).out
    desk.done("grants", "take", scope, granted["id"])
    assert desk.done("grants", "list", scope, "--key", key, "--json").data == []


def test_what_a_subject_s_messages_say_is_erased(desk: WorkDesk) -> None:
    message_id = desk.published('{"name": "ada"}', "--label", "subject=42")
    assert "erased the content of 1 messages" in desk.done("erase", desk.scope, "42", "--yes").out
    assert desk.shown(message_id)["body"] is None
    assert [each["messages"] for each in desk.done("erasures", desk.scope, "--json").data] == [1]
    assert "done" in desk.done("erasures", desk.scope).out


@pytest.mark.parametrize("command", [("erase", "42"), ("rules", "delete", "x"), ("schemas", "delete", "x")])
def test_what_destroys_asks_first(desk: WorkDesk, command: tuple[str, ...]) -> None:
    said = desk(*command[:-1], desk.scope, command[-1], stdin="n\n")
    assert said.code != 0
    assert "?" in said.out + said.err

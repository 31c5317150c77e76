"""`relevo work`: scopes, queues, and what happens to messages; as tables for people and as JSON for programs."""

import json
from pathlib import Path

import pytest

from tests.acceptance.work_desk import WorkDesk
from tests.support.command_line import call
from tests.support.serve_process import ServeProcess


@pytest.fixture
def desk(served: ServeProcess) -> WorkDesk:
    return WorkDesk(served)


def test_scopes_are_listed(desk: WorkDesk) -> None:
    listed = desk.done("scopes", "--json").data
    assert [scope["state"] for scope in listed if scope["slug"] == desk.scope] == ["active"]
    assert desk.scope in desk.done("scopes").out


def test_a_scope_is_made_once(desk: WorkDesk) -> None:
    slug = f"{desk.scope}-b"
    assert desk.done("create-scope", slug).out == f"scope {slug} is ready\n"
    again = desk("create-scope", slug)
    assert (again.code, again.out) == (1, "")
    assert f"There is a scope '{slug}' already" in again.err


def test_a_scope_and_a_queue_that_are_there_already_are_fine_when_asked_for(desk: WorkDesk) -> None:
    slug = f"{desk.scope}-e"
    for _ in range(2):
        assert desk.done("create-scope", slug, "--exist-ok").out == f"scope {slug} is ready\n"
        made = desk.done("create-queue", slug, "emails", "--max-retries", "7", "--exist-ok", "--json").data
        assert made["max_retries"] == 7
    kept = desk.done("create-queue", slug, "emails", "--max-retries", "1", "--exist-ok", "--json").data
    assert kept["max_retries"] == 7, "what was there stays as it is"
    assert desk("create-queue", slug, "emails").code == 1


def test_a_made_scope_is_told_as_json(desk: WorkDesk) -> None:
    made = desk.done("create-scope", f"{desk.scope}-c", "--json").data
    assert (made["slug"], made["state"], made["events_to_queue"]) == (f"{desk.scope}-c", "active", [])


def test_queues_are_listed_with_what_they_hold(desk: WorkDesk) -> None:
    desk.held()
    desk.published()
    desk.published("1", "--delay", "3600")
    by_slug = {queue["slug"]: queue for queue in desk.done("queues", desk.scope, "--json").data}
    found = by_slug["invoices"]
    assert [found[f"depth_{state}"] for state in ("pending", "delayed", "claimed", "dead")] == [1, 1, 1, 0]
    assert "_dead_letter" in by_slug
    table = desk.done("queues", desk.scope).out
    assert f"queues of {desk.scope}" in table
    assert "in review" in table


def test_a_queue_is_made_as_it_was_asked_for(desk: WorkDesk) -> None:
    options = ["--ordering", "priority", "--mode", "broadcast", "--visibility-timeout", "90", "--max-retries", "2"]
    made = desk.done("create-queue", desk.scope, "news", *options, "--max-depth", "7", "--json").data
    kept = (
        made["ordering"],
        made["consumer_mode"],
        made["visibility_timeout_s"],
        made["max_retries"],
        made["max_depth"],
    )
    assert kept == ("priority", "broadcast", 90, 2, 7)
    assert desk.done("create-queue", desk.scope, "plain").out == f"queue {desk.scope}/plain is ready\n"


def test_a_paused_queue_takes_nothing_until_it_is_active_again(desk: WorkDesk) -> None:
    assert desk.done("set-state", desk.scope, "invoices", "paused").out == f"queue {desk.scope}/invoices is paused\n"
    refused = desk("publish", desk.scope, "invoices", "1")
    assert refused.code == 1
    assert "'invoices' is paused: set its state to \"active\"" in refused.err
    assert desk.done("set-state", desk.scope, "invoices", "active", "--json").data["state"] == "active"
    desk.published()


def test_a_published_message_is_shown_with_all_that_was_said_of_it(desk: WorkDesk) -> None:
    options = ["--type", "invoice", "--tier", "high", "--label", "customer=ada", "--label", "country=es"]
    message_id = desk.published('{"order": 17}', *options)
    shown = desk.shown(message_id)
    assert (shown["state"], shown["body"], shown["message_type"]) == ("pending", {"order": 17}, "invoice")
    assert (shown["priority_tier"], shown["labels"]) == ("high", {"customer": "ada", "country": "es"})
    table = desk.done("show", desk.scope, message_id).out
    assert message_id in table
    assert "invoice" in table


def test_a_publish_says_the_id_and_the_state(desk: WorkDesk) -> None:
    said = desk.done("publish", desk.scope, "invoices", "1", "--delay", "60").out
    message_id, state = said.split()
    assert state == desk.state(message_id) == "delayed"


def test_the_same_once_key_publishes_once(desk: WorkDesk) -> None:
    first = desk.published("1", "--once", "order-17")
    again = desk.done("publish", desk.scope, "invoices", "1", "--once", "order-17").out
    assert again == f"{first} was already published\n"
    other = desk("publish", desk.scope, "invoices", "2", "--once", "order-17")
    assert other.code == 1
    assert f"'order-17' was used with another body, for message {first}" in other.err


def test_each_line_of_stdin_is_a_message(desk: WorkDesk) -> None:
    said = desk.done("publish", desk.scope, "invoices", stdin='{"n": 1}\n\n"two"\n3\n').out
    assert said == "3 published\n"
    bodies = [message["body"] for message in desk.done("search", desk.scope, "--json").data]
    assert sorted(map(json.dumps, bodies)) == ['"two"', "3", '{"n": 1}']


def test_refused_lines_are_counted_and_end_with_1(desk: WorkDesk) -> None:
    desk.done("create-queue", desk.scope, "small", "--max-depth", "2")
    said = desk("publish", desk.scope, "small", stdin="1\n2\n3\n")
    assert said.code == 1
    assert said.out.startswith("2 published, 1 refused\n  QUEUE_FULL: Queue 'small' holds 2 messages")
    told = desk("publish", desk.scope, "small", "--json", stdin="4\n")
    assert (told.code, [each["refusal"]["code"] for each in told.data]) == (1, ["QUEUE_FULL"])


def test_a_claim_is_shown_with_its_token(desk: WorkDesk) -> None:
    message_id = desk.published()
    table = desk.done("claim", desk.scope, "invoices").out
    assert message_id in table
    assert "token" in table
    assert '{"order": 17}' in table
    assert desk.state(message_id) == "claimed"


def test_nothing_to_claim_is_said(desk: WorkDesk) -> None:
    assert desk.done("claim", desk.scope, "invoices").out == "nothing to claim\n"
    assert desk.done("claim", desk.scope, "invoices", "--json").data == []


def test_claims_take_as_many_as_asked_and_only_those_with_the_label(desk: WorkDesk) -> None:
    wanted = {desk.published("1", "--label", "to=ada") for _ in range(2)}
    desk.published("2", "--label", "to=bob")
    claimed = desk.done("claim", desk.scope, "invoices", "--count", "10", "--label", "to=ada", "--json").data
    assert {message["id"] for message in claimed} == wanted


def test_a_completed_message_keeps_its_result(desk: WorkDesk) -> None:
    message_id, token = desk.held()
    said = desk.done("complete", desk.scope, message_id, token, '{"paid": true}').out
    assert said == f"{message_id} is completed\n"
    shown = desk.shown(message_id)
    assert (shown["state"], shown["result"]) == ("completed", {"paid": True})


def test_a_failed_message_waits_for_its_next_try_with_its_reason(desk: WorkDesk) -> None:
    message_id, token = desk.held()
    told = desk.done("fail", desk.scope, message_id, token, "the bank is closed", "--json").data
    assert told["state"] == "delayed"
    assert desk.shown(message_id)["failure_reason"] == "the bank is closed"


def test_an_error_is_told_in_parts_and_shown_with_its_stack(desk: WorkDesk, tmp_path: Path) -> None:
    message_id, token = desk.held()
    stack = tmp_path / "stack.txt"
    stack.write_text("Error: no [email]\n    at send (mail.js:7:3)\n")
    options = ["--error-type", "Error", "--message", "no [email]", "--stack-file", str(stack), "--dead"]
    desk.done("fail", desk.scope, message_id, token, *options)
    assert desk.shown(message_id)["error"] == {"type": "Error", "message": "no [email]", "stack": stack.read_text()}
    said = desk.done("show", desk.scope, message_id).out
    assert "Error: no [email]" in said
    assert said.endswith("Error: no [email]\n    at send (mail.js:7:3)\n")
    assert "Error: no [email]" in desk.done("history", desk.scope, message_id).out
    (letter,) = desk.done("dead-letters", desk.scope, "--json").data
    assert (letter["reason"], letter["error"]["type"], letter["error"]["stack"]) == ("Error: no [email]", "Error", None)
    assert "Error: no [email]" in desk.done("dead-letters", desk.scope).out


def test_a_stack_comes_from_standard_input_too(desk: WorkDesk) -> None:
    message_id, token = desk.held()
    desk.done("fail", desk.scope, message_id, token, "out of paper", "--stack-file", "-", stdin="at print\n")
    assert desk.shown(message_id)["error"] == {"type": None, "message": "out of paper", "stack": "at print\n"}


def test_a_failure_without_a_why_is_refused(desk: WorkDesk) -> None:
    message_id, token = desk.held()
    assert "Pass a REASON, or --error-type and --message." in desk.refused("fail", desk.scope, message_id, token)
    assert desk.state(message_id) == "claimed"


def test_a_message_failed_as_dead_is_a_dead_letter(desk: WorkDesk) -> None:
    assert desk.state(desk.dead()) == "dead"


def test_a_released_message_is_pending_at_once(desk: WorkDesk) -> None:
    message_id, token = desk.held()
    assert desk.done("release", desk.scope, message_id, token).out == f"{message_id} is pending\n"
    assert desk.shown(message_id)["attempts"] == 0


def test_an_extended_claim_ends_later(desk: WorkDesk) -> None:
    message_id, token = desk.held()
    before = desk.shown(message_id)["claim_until"]
    told = desk.done("extend", desk.scope, message_id, token, "3600", "--json").data
    assert isinstance(before, int)
    assert told["claim_until"] > before + 3_000_000
    assert "is claimed until 20" in desk.done("extend", desk.scope, message_id, token, "3600").out


@pytest.mark.parametrize("verb", ["complete", "fail", "release", "extend"])
def test_an_old_token_is_refused_and_the_message_stays_claimed(desk: WorkDesk, verb: str) -> None:
    message_id, _ = desk.held()
    more = {"fail": ["why"], "extend": ["60"]}.get(verb, [])
    said = desk(verb, desk.scope, message_id, "0" * 26, *more)
    assert said.code == 1
    assert f"The claim on message '{message_id}' is lost" in said.err
    assert desk.state(message_id) == "claimed"


def test_search_finds_by_state_type_label_correlation_and_time(desk: WorkDesk) -> None:
    wanted = desk.published("1", "--type", "invoice", "--label", "to=ada")
    desk.published("2", "--type", "letter")
    correlation = str(desk.shown(wanted)["correlation_id"])
    for options in (
        ["--type", "invoice"],
        ["--label", "to=ada"],
        ["--correlation", correlation],
        ["--state", "pending", "--type", "invoice", "--queue", "invoices", "--since", "2020-01-01T00:00:00Z"],
    ):
        assert [each["id"] for each in desk.done("search", desk.scope, *options, "--json").data] == [wanted]
    assert desk.done("search", desk.scope, "--until", "2020-01-01T00:00:00Z", "--json").data == []
    assert len(desk.done("search", desk.scope, "--limit", "1", "--json").data) == 1
    assert wanted in desk.done("search", desk.scope).out


def test_the_history_tells_every_step_in_order(desk: WorkDesk) -> None:
    message_id, token = desk.held()
    desk.done("complete", desk.scope, message_id, token)
    steps = desk.done("history", desk.scope, message_id, "--json").data
    assert [step["event"] for step in steps] == ["published", "claimed", "completed"]
    table = desk.done("history", desk.scope, message_id).out
    assert table.index("published") < table.index("claimed") < table.index("completed")


def test_a_message_is_cancelled_after_a_yes(desk: WorkDesk) -> None:
    message_id = desk.published()
    refused = desk("cancel", desk.scope, message_id, stdin="n\n")
    assert refused.code == 1
    assert "nothing was changed" in refused.err
    assert desk.state(message_id) == "pending"
    said = desk.done("cancel", desk.scope, message_id, "--reason", "paid in cash", "--yes").out
    assert said == f"{message_id} is cancelled\n"
    assert desk.shown(message_id)["failure_reason"] == "paid in cash"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("queues", "nowhere"), "There is no scope 'nowhere' here: check its name"),
        (("create-scope", "Not A Slug"), "Not A Slug"),
        (("create-queue", "SCOPE", "q", "--ordering", "random"), "random"),
        (("create-queue", "SCOPE", "invoices"), "There is a queue 'invoices' already"),
        (("set-state", "SCOPE", "invoices", "asleep"), "asleep"),
        (("set-state", "SCOPE", "nothing", "paused"), "There is no queue 'nothing' here"),
        (("publish", "SCOPE", "nothing", "1"), "There is no queue 'nothing' here"),
        (("publish", "SCOPE", "invoices", "{bad"), "'{bad' is not valid"),
        (("publish", "SCOPE", "invoices", "1", "--label", "ada"), "Write name=value"),
        (("publish", "SCOPE", "invoices", "1", "--tier", "urgent"), "urgent"),
        (("publish", "SCOPE", "invoices", "--once", "order-17"), "it is for one message"),
        (("claim", "SCOPE", "nothing"), "There is no queue 'nothing' here"),
        (("claim", "SCOPE", "invoices", "--subscription", "ada"), "'invoices' is competing"),
        (("complete", "SCOPE", "01J9ZZZZZZZZZZZZZZZZZZZZZZ", "token", "{bad"), "'{bad' is not valid"),
        (("show", "SCOPE", "17"), "There is no message '17' here"),
        (("history", "SCOPE", "17"), "There is no message '17' here"),
        (("cancel", "SCOPE", "17", "--yes"), "There is no message '17' here"),
        (("search", "SCOPE", "--state", "lost"), "lost"),
        (("search", "SCOPE", "--since", "yesterday"), "yesterday"),
    ],
)
def test_bad_input_is_one_line_that_names_the_value_and_the_remedy(
    desk: WorkDesk, arguments: tuple[str, ...], words: str
) -> None:
    assert words in desk.refused(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("claim", "s", "q", "--count", "0"),
        ("claim", "s", "q", "--wait", "61"),
        ("publish", "s", "q", "1", "--delay", "-1"),
        ("search", "s", "--limit", "501"),
        ("create-queue", "s", "q", "--visibility-timeout", "0"),
        ("extend", "s", "m", "t", "0"),
        ("keys", "create", "k", "--expires", "soon"),
        ("keys", "create", "k", "--expires", "0"),
        ("replay", "s", "--rate", "0"),
    ],
)
def test_a_number_out_of_range_is_a_usage_error_before_anything_is_sent(arguments: tuple[str, ...]) -> None:
    said = call("work", "--url", "http://127.0.0.1:1", "--key", "none", *arguments)
    assert said.code == 2
    assert "Invalid value" in said.err


def test_no_server_is_said_with_its_address() -> None:
    said = call("work", "--url", "http://127.0.0.1:1", "--key", "none", "scopes")
    assert said.code == 1
    assert "No relevo server answers at http://127.0.0.1:1" in said.err
    assert "Start one with `relevo serve`" in said.err


def test_a_wrong_key_is_refused_and_never_shown(desk: WorkDesk) -> None:
    said = desk("scopes", key="rlv_notakeyofthisplace")
    assert said.code == 1
    assert "No valid API key was sent" in said.err
    assert "notakeyofthisplace" not in said.err + said.out

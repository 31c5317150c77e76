"""`relevo work`: dead letters and replays, usage, the audit, agents, keys."""

from datetime import UTC, datetime

import pytest

from tests.acceptance.work_desk import WorkDesk
from tests.support.command_line import call
from tests.support.serve_process import ServeProcess


@pytest.fixture
def desk(served: ServeProcess) -> WorkDesk:
    return WorkDesk(served)


def test_dead_letters_are_listed_by_queue_reason_and_time(desk: WorkDesk) -> None:
    wanted = desk.dead("no such customer")
    desk.dead("no stock")
    for options in (["--reason", "customer"], ["--reason", "customer", "--queue", "invoices", "--since", "2020-01-01"]):
        letters = desk.done("dead-letters", desk.scope, *options, "--json").data
        assert [(each["id"], each["reason"], each["queue"]) for each in letters] == [
            (wanted, "no such customer", "invoices")
        ]
    assert len(desk.done("dead-letters", desk.scope, "--limit", "1", "--json").data) == 1
    assert "no such customer" in desk.done("dead-letters", desk.scope).out


def test_a_scope_without_dead_letters_says_so(desk: WorkDesk) -> None:
    assert desk.done("dead-letters", desk.scope).out == f"no dead letters in {desk.scope}\n"


def test_a_dry_run_counts_and_sends_nothing_back(desk: WorkDesk) -> None:
    message_id = desk.dead()
    said = desk.done("replay", desk.scope, "--dry-run").out
    assert said == "1 dead letters match, 0 would be skipped\n"
    assert desk.state(message_id) == "dead"


def test_a_replay_sends_back_what_matches_and_says_how_it_ended(desk: WorkDesk) -> None:
    wanted, other = desk.dead("no such customer"), desk.dead("no stock")
    said = desk.done("replay", desk.scope, "--reason", "customer", "--rate", "100", "--yes").out
    assert "is done: 1 sent back, 0 skipped\n" in said
    assert (desk.state(wanted), desk.state(other)) == ("pending", "dead")


def test_a_replay_by_id_is_told_as_json(desk: WorkDesk) -> None:
    wanted, other = desk.dead(), desk.dead()
    ended = desk.done("replay", desk.scope, "--id", wanted, "--yes", "--json").data
    assert (ended["state"], ended["total"], ended["done"]) == ("done", 1, 1)
    assert (desk.state(wanted), desk.state(other)) == ("pending", "dead")


def test_a_replay_asks_first(desk: WorkDesk) -> None:
    message_id = desk.dead()
    said = desk("replay", desk.scope, stdin="n\n")
    assert said.code == 1
    assert "Send 1 dead letters" in said.err
    assert "nothing was changed" in said.err
    assert desk.state(message_id) == "dead"


def test_a_replay_of_nothing_asks_nothing(desk: WorkDesk) -> None:
    assert desk.done("replay", desk.scope, "--reason", "boredom").out == "0 dead letters match, 0 would be skipped\n"


def test_usage_counts_what_the_queue_did_today(desk: WorkDesk) -> None:
    message_id, token = desk.held()
    desk.done("complete", desk.scope, message_id, token)
    today = datetime.now(UTC).date().isoformat()
    (row,) = desk.done("usage", "--scope", desk.scope, "--json").data
    assert (row["queue"], row["published"], row["claims"], row["completed"]) == ("invoices", 1, 1, 1)
    assert row["day"] <= today
    assert desk.done("usage", "--scope", desk.scope, "--until", "2020-01-01", "--json").data == []
    assert "handler time" in desk.done("usage", "--scope", desk.scope, "--since", row["day"]).out


def test_the_audit_tells_who_made_the_queue(desk: WorkDesk) -> None:
    options = ["--scope", desk.scope, "--action", "queue.create", "--target", "invoices"]
    (entry,) = desk.done("audit", *options, "--json").data
    assert (entry["action"], entry["queue"], entry["after"]["ordering"]) == ("queue.create", "invoices", "fifo")
    assert desk.done("audit", *options, "--actor", entry["actor"], "--json").data == [entry]
    assert desk.done("audit", *options, "--actor", "nobody", "--json").data == []
    assert entry["actor"] in desk.done("audit", *options).out


def test_the_agents_are_listed_with_their_last_runs(desk: WorkDesk) -> None:
    names = {agent["agent"]: agent["every_s"] for agent in desk.done("agents", "--json").data}
    assert names["visibility_timeout_enforcer"] == 1.0
    assert names["message_archiver"] == 300.0
    table = desk.done("agents").out
    assert "outbox_relay" in table
    assert "failures" in table


def test_an_agent_is_run_now(desk: WorkDesk) -> None:
    (before,) = desk.done("agents", "--run", "message_archiver", "--json").data
    (after,) = desk.done("agents", "--run", "message_archiver", "--json").data
    assert after["runs"] == before["runs"] + 1
    assert after["last_error"] is None


def test_a_made_key_is_shown_once_and_does_what_it_may(desk: WorkDesk) -> None:
    limits = ["--may", "view", "--scope", desk.scope, "--queue", "invoices", "--expires", "1.5"]
    made = desk.done("keys", "create", "reader", *limits, "--json").data
    kept = made["key"]
    assert (kept["permissions"], kept["scopes"], kept["queues"]) == (["view"], [desk.scope], ["invoices"])
    assert 1.4 * 86_400_000 < kept["expires_at"] - kept["created_at"] < 1.6 * 86_400_000
    assert desk("queues", desk.scope, key=made["secret"]).code == 0
    refused = desk("publish", desk.scope, "invoices", "1", key=made["secret"])
    assert refused.code == 1
    assert "The API key may not publish here: use a key with the permission 'publish'" in refused.err
    listed = desk.done("keys", "list", "--json")
    assert kept["id"] in {key["id"] for key in listed.data}
    assert made["secret"] not in listed.out + desk.done("keys", "list").out


def test_a_new_key_is_the_only_thing_on_stdout(desk: WorkDesk) -> None:
    said = desk.done("keys", "create", "for-a-script")
    assert said.out.startswith("rlv_")
    assert said.out.count("\n") == 1
    assert "it is shown only now" in said.err
    assert desk("publish", desk.scope, "invoices", "1", key=said.out.strip()).code == 0


def test_a_revoked_key_ends_at_once(desk: WorkDesk) -> None:
    made = desk.done("keys", "create", "short-lived", "--json").data
    key_id = made["key"]["id"]
    asked = desk("keys", "revoke", key_id, stdin="n\n")
    assert (asked.code, desk("scopes", key=made["secret"]).code) == (1, 0)
    assert desk.done("keys", "revoke", key_id, "--yes").out == f"{key_id} (short-lived) is revoked\n"
    refused = desk("scopes", key=made["secret"])
    assert refused.code == 1
    assert "expired or was revoked" in refused.err


def test_the_first_key_of_a_tenant_opens_a_room_of_its_own(desk: WorkDesk) -> None:
    tenant = f"t-{desk.scope}"
    made = call("work", "keys", "first", tenant, "--database-url", desk.served.database_url, "--json").data
    assert desk("scopes", "--json", key=made["secret"]).data == []
    shown = call("work", "keys", "first", f"{tenant}-b", "--database-url", desk.served.database_url)
    assert shown.out.startswith("rlv_")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("dead-letters", "nowhere"), "There is no scope 'nowhere' here"),
        (("dead-letters", "SCOPE", "--since", "yesterday"), "yesterday"),
        (("replay", "nowhere", "--yes"), "There is no scope 'nowhere' here"),
        (("replay", "SCOPE", "--id", "17", "--yes"), "'17'"),
        (("usage", "--since", "yesterday"), "yesterday"),
        (("agents", "--run", "coffee_maker"), "There is no agent 'coffee_maker' here"),
        (("keys", "create", "k", "--may", "fly"), "fly"),
        (("keys", "revoke", "17", "--yes"), "There is no key '17' here"),
    ],
)
def test_bad_input_is_one_line_that_names_the_value_and_the_remedy(
    desk: WorkDesk, arguments: tuple[str, ...], words: str
) -> None:
    assert words in desk.refused(*arguments)

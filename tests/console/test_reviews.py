"""The pages of reviews in a real browser: taken, corrected, decided, by one person and by two at once."""

import json

import pytest
from playwright.sync_api import Page, expect

from tests.console.desk import ConsoleDesk

NASTY = "</pre><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"


def take(page: Page, desk: ConsoleDesk, review_id: str) -> None:
    page.goto(desk.place(review_id))
    page.get_by_role("button", name="Take it").click()
    expect(page.get_by_text("In your hands", exact=True)).to_be_visible()


def test_a_review_is_found_taken_corrected_and_approved(desk: ConsoleDesk) -> None:
    review_id = desk.review({"number": 17, "amount": 9000})
    page = desk.person("ada")
    page.get_by_label("Scope").select_option(desk.scope)
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="Pay this invoice?").click()
    page.get_by_role("button", name="Take it").click()
    page.get_by_label("Body").fill('{"number": 17, "amount": 900}')
    page.get_by_role("radio", name="Approve").check()
    page.get_by_label("Amount to pay").fill("900")
    page.get_by_label("Pay today").check()
    page.get_by_label("From account").select_option("travel")
    page.get_by_label("Comment").fill("a zero too many")
    page.get_by_role("button", name="Decide").click()
    expect(page.get_by_role("status")).to_have_text("Your decision is recorded.")
    message = desk.message_of(review_id)
    assert message["state"] == "completed"
    assert message["result"] == {
        "decision": "approve",
        "amount": 900.0,
        "urgent": True,
        "account": "travel",
        "comment": "a zero too many",
        "corrected_body": {"number": 17, "amount": 900},
    }


def test_what_is_wrong_is_said_at_its_field_and_nothing_typed_is_lost(desk: ConsoleDesk) -> None:
    review_id = desk.review({"number": 17})
    page = desk.person("ada")
    take(page, desk, review_id)
    page.get_by_label("Body").fill('{"number": 17,')
    page.get_by_role("radio", name="Reject").check()
    page.get_by_label("Amount to pay").fill("1000")
    page.get_by_role("button", name="Decide").click()
    assert page.locator("#corrected_body-fault").inner_text().startswith("Is no JSON")
    expect(page.locator("#field-amount-fault")).to_have_text("Must be at most 900")
    expect(page.locator("#field-reason-fault")).to_have_text("Is needed")
    expect(page.get_by_label("Amount to pay")).to_have_value("1000")
    expect(page.get_by_label("Amount to pay")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Body")).to_have_value('{"number": 17,')
    expect(page.get_by_role("radio", name="Reject")).to_be_checked()
    assert desk.message_of(review_id)["state"] == "in_review"


def test_a_field_may_be_called_what_the_form_s_own_are_called(desk: ConsoleDesk) -> None:
    fields = [{"field": name, "label": f"the {name}"} for name in ("csrf", "to", "text", "key")]
    review_id = desk.review({"n": 1}, {"title": "Fine?", "input": fields})
    page = desk.person("ada")
    take(page, desk, review_id)
    for name in ("csrf", "to", "text", "key"):
        page.get_by_label(f"the {name}").fill(f"{name}!")
    page.get_by_role("radio", name="Approve").check()
    page.get_by_role("button", name="Decide").click()
    expect(page.get_by_role("status")).to_have_text("Your decision is recorded.")
    said = {"csrf": "csrf!", "to": "to!", "text": "text!", "key": "key!"}
    assert desk.message_of(review_id)["result"] == {"decision": "approve", **said}


def test_a_body_that_was_left_as_it_is_is_no_correction(desk: ConsoleDesk) -> None:
    review_id = desk.review({"b": 1, "a": [1.5, None, "é"]}, {"title": "Fine?", "may_correct": True})
    page = desk.person("ada")
    take(page, desk, review_id)
    page.get_by_role("radio", name="Approve").check()
    page.get_by_role("button", name="Decide").click()
    expect(page.get_by_role("status")).to_be_visible()
    assert desk.message_of(review_id)["result"] == {"decision": "approve"}


def test_two_people_at_once_one_of_them_is_told_who_was_quicker(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1})
    ada, grace = desk.person("ada"), desk.person("grace")
    for page in (ada, grace):
        page.goto(desk.place(review_id))
    ada.get_by_role("button", name="Take it").click()
    grace.get_by_role("button", name="Take it").click()
    expect(grace.get_by_role("alert")).to_have_text("ada was quicker: the review is in their hands now.")
    expect(grace.get_by_text("In the hands of ada")).to_be_visible()
    expect(grace.get_by_role("button", name="Decide")).to_have_count(0)
    ada.get_by_label("Hand over to").fill("grace")
    ada.get_by_role("button", name="Hand over").click()
    expect(ada.get_by_text("In the hands of grace")).to_be_visible()
    grace.reload()
    expect(grace.get_by_role("button", name="Decide")).to_be_visible()


def test_whoever_lost_a_review_meanwhile_decides_nothing(desk: ConsoleDesk) -> None:
    """Taken in one tab, given back and taken by somebody else before the answer is sent."""
    review_id = desk.review({"n": 1}, {"title": "Fine?"})
    ada, grace = desk.person("ada"), desk.person("grace")
    take(ada, desk, review_id)
    tab = ada.context.new_page()
    tab.goto(desk.place(review_id))
    tab.get_by_role("button", name="Give back").click()
    take(grace, desk, review_id)
    ada.get_by_role("radio", name="Approve").check()
    ada.get_by_role("button", name="Decide").click()
    expect(ada.get_by_role("alert")).to_contain_text("grace was quicker")
    assert desk.message_of(review_id)["state"] == "in_review"


def test_comments_and_holding_longer_are_part_of_what_happened(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1})
    page = desk.person("ada")
    take(page, desk, review_id)
    page.get_by_label("Say something").fill("asked the\nsupplier")
    page.get_by_role("button", name="Comment").click()
    expect(page.locator(".notes")).to_contain_text("asked the\nsupplier")
    page.get_by_role("button", name="Hold longer").click()
    expect(page.get_by_role("status")).to_have_text("You hold it for longer now.")
    page.get_by_role("button", name="Give back").click()
    page.goto(desk.place(review_id))
    expect(page.get_by_role("button", name="Take it")).to_be_visible()
    notes = page.locator(".notes .did").all_inner_texts()
    assert notes == ["opened", "claimed", "commented", "released"]


def test_a_review_for_others_can_be_read_and_not_taken(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1}, {"title": "For two", "assignees": ["ada", "grace"], "quorum": 2})
    page = desk.person("eve")
    page.goto(desk.place(review_id))
    expect(page.get_by_text("This one is for ada, grace")).to_be_visible()
    expect(page.get_by_role("button", name="Take it")).to_have_count(0)


def test_a_quorum_needs_both(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1}, {"title": "For two", "assignees": ["ada", "grace"], "quorum": 2})
    for name in ("ada", "grace"):
        page = desk.person(name)
        take(page, desk, review_id)
        page.get_by_role("radio", name="Approve").check()
        page.get_by_role("button", name="Decide").click()
        page.goto(desk.place(review_id))
        wanted = "You have decided." if name == "ada" else "It is over"
        expect(page.get_by_text(wanted)).to_be_visible()
    assert desk.message_of(review_id)["state"] == "completed"


def test_the_inbox_shows_only_mine_when_asked(desk: ConsoleDesk) -> None:
    desk.review({}, {"title": "For ada", "assignees": ["ada"]})
    desk.review({}, {"title": "For grace", "assignees": ["grace"]})
    desk.review({}, {"title": "For anybody"})
    page = desk.person("ada")
    page.goto(f"{desk.serve.url}/console/reviews?scope={desk.scope}")
    assert page.locator(".inbox .title").all_inner_texts() == ["For ada", "For grace", "For anybody"]
    page.get_by_label("Only what I may decide").check()
    page.get_by_role("button", name="Show").click()
    assert page.locator(".inbox .title").all_inner_texts() == ["For ada", "For anybody"]


def test_a_key_for_one_scope_sees_no_other(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1})
    other = ConsoleDesk(desk.serve, desk.visitors)
    page = desk.person("ada", desk.key("ada", scopes=[other.scope]))
    expect(page.get_by_text("Nothing waits for a decision here.")).to_be_visible()
    assert page.get_by_label("Scope").locator("option").all_inner_texts() == ["all", other.scope]
    assert (page.goto(desk.place(review_id)) or pytest.fail("no answer")).status == 404
    other.close()


def test_whoever_may_only_look_is_told_so(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1})
    page = desk.person("guest", desk.key("guest", "view"))
    page.goto(desk.place(review_id))
    page.get_by_role("button", name="Take it").click()
    expect(page.get_by_role("alert")).to_contain_text("review")
    assert desk.do("GET", f"/scopes/{desk.scope}/reviews/{review_id}")["holder"] is None


@pytest.mark.parametrize(
    "where", ["body", "comment", *(pytest.param(at, marks=pytest.mark.whole) for at in ("title", "context", "option"))]
)
def test_what_messages_and_people_say_is_shown_and_not_obeyed(desk: ConsoleDesk, where: str) -> None:
    body = {"text": NASTY} if where == "body" else {}
    spec: dict[str, object] = {"title": NASTY if where == "title" else "Fine?", "may_correct": where == "body"}
    if where == "context":
        spec["context"] = [{"title": NASTY, "content": NASTY}]
    if where == "option":
        spec["decision"] = {"options": [{"value": NASTY, "label": NASTY}], "label": NASTY}
        spec["input"] = [{"field": "x", "label": NASTY, "default": NASTY}]
    review_id = desk.review(body, spec)
    page = desk.person("ada")
    take(page, desk, review_id)
    if where == "comment":
        page.get_by_label("Say something").fill(NASTY)
        page.get_by_role("button", name="Comment").click()
    page.goto(desk.place(review_id))
    shown = page.get_by_label("Body").input_value() if where == "body" else page.locator("main").inner_text()
    assert (json.dumps(NASTY) if where == "body" else NASTY) in shown
    assert page.locator("script").count() == 0
    assert page.locator("img").count() == 0
    assert "broken" not in page.title() or where == "title"


def test_a_dead_letter_is_sent_to_review_by_a_click_and_replayed(desk: ConsoleDesk) -> None:
    message_id = desk.dead_letter({"to": "adda"})
    page = desk.person("ada")
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_label("Scope").select_option(desk.scope)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("no such account")).to_be_visible()
    page.get_by_role("button", name="Send to review").click()
    expect(page.get_by_role("status")).to_have_text("The dead letter waits for a decision now.")
    page.get_by_role("button", name="Take it").click()
    page.get_by_label("Body").fill('{"to": "ada"}')
    page.get_by_role("radio", name="Approve").check()
    page.get_by_role("button", name="Decide").click()
    expect(page.get_by_role("status")).to_be_visible()
    (claimed,) = desk.do("POST", f"/scopes/{desk.scope}/queues/invoices/claim", {"wait_s": 20})
    assert (claimed["id"], claimed["body"]) == (message_id, {"to": "ada"})


def test_dead_letters_are_found_by_their_reason(desk: ConsoleDesk) -> None:
    desk.dead_letter({"n": 1}, "no such account")
    desk.dead_letter({"n": 2}, "the printer is on fire")
    page = desk.person("ada")
    page.goto(f"{desk.serve.url}/console/dead-letters?scope={desk.scope}")
    assert page.locator(".letter").count() == 2
    page.get_by_label("Part of the reason").fill("on fire")
    page.get_by_role("button", name="Show").click()
    assert page.locator(".why").all_inner_texts() == ["the printer is on fire"]


def test_a_review_that_is_over_says_how_it_ended(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1}, {"title": "Fine?"})
    desk.do("POST", f"/scopes/{desk.scope}/reviews/{review_id}/decide", {"answer": {"decision": "reject"}})
    page = desk.person("ada")
    page.goto(desk.place(review_id))
    expect(page.get_by_label("Who holds it")).to_contain_text("decided, Reject")
    expect(page.get_by_role("button", name="Comment")).to_have_count(0)

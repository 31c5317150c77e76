"""Logging in and out of the console: what the browser keeps, what forms prove, and when a session ends."""

from collections.abc import Generator
from contextlib import contextmanager

import httpx
import pytest
from playwright.sync_api import expect

from tests.console.desk import CSRF, ConsoleDesk, log_in
from tests.pace import limit
from tests.support.serve_process import first_key


def test_a_page_asks_for_the_login_and_leads_back_to_itself(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1})
    page = desk.visitor()
    page.goto(desk.place(review_id))
    assert "/console/login" in page.url
    log_in(page, desk.key("ada"))
    assert page.url == desk.place(review_id)


def test_a_wrong_key_is_said_at_its_field(desk: ConsoleDesk) -> None:
    page = desk.visitor()
    page.goto(f"{desk.serve.url}/console/login")
    log_in(page, "rlv_wrong")
    expect(page.locator("#key-fault")).to_contain_text("does not open anything here")
    assert "rlv_wrong" not in page.content()


def test_the_cookie_is_out_of_reach_of_scripts_and_holds_no_key(desk: ConsoleDesk) -> None:
    key = desk.key("ada")
    page = desk.person("ada", key)
    cookies = page.context.cookies()
    (session,) = [cookie for cookie in cookies if cookie.get("name") == "relevo_session"]
    assert (session.get("httpOnly"), session.get("sameSite"), session.get("path")) == (True, "Strict", "/console")
    kept = " ".join(str(cookie.get("value")) for cookie in cookies)
    assert key not in kept
    assert key.split("_")[1] not in kept
    said = desk.http.get("/v1/keys", headers={"authorization": f"Bearer {session.get('value')}"})
    assert said.status_code == 401, "what the browser keeps is no key"


def test_logging_out_ends_the_session_also_for_who_copied_the_cookie(desk: ConsoleDesk) -> None:
    page = desk.person("ada")
    cookies = page.context.cookies()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    thief = desk.visitor()
    thief.context.add_cookies(cookies)  # pyright: ignore[reportArgumentType] - what was read is what is written
    thief.goto(f"{desk.serve.url}/console/reviews")
    assert "/console/login" in thief.url


@pytest.mark.parametrize("how", ["revoked", "rotated"])
def test_a_session_ends_with_its_key(desk: ConsoleDesk, how: str) -> None:
    key = desk.key("ada")
    page = desk.person("ada", key)
    key_id = key.split("_")[1]
    if how == "revoked":
        desk.do("DELETE", f"/keys/{key_id}")
    else:
        desk.do("POST", f"/keys/{key_id}/rotate", {"grace_s": 0})
    page.reload()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_key_that_acts_for_people_says_for_whom(desk: ConsoleDesk) -> None:
    key = desk.key("front desk")
    page = desk.visitor()
    for wanted in ("refused", "taken"):
        page.goto(f"{desk.serve.url}/console/login")
        page.get_by_text("The key acts for several people").click()
        page.get_by_label("Your name").fill("grace")
        log_in(page, key)
        if wanted == "refused":
            expect(page.locator("#person-fault")).to_contain_text("does not act for other people")
            desk.do("PUT", f"/keys/{key.split('_')[1]}/limits", {"acts_for_people": True})
    expect(page.locator(".person")).to_have_text("grace")


# --- forms that other pages send ------------------------------------------------------------------------------------------


@contextmanager
def session_of(desk: ConsoleDesk, key: str | None = None) -> Generator[httpx.Client]:
    """Somebody logged in, without a browser that would keep foreign forms away by itself."""
    with httpx.Client(base_url=desk.serve.url, timeout=limit(30)) as client:
        found = CSRF.search(client.get("/console/login").text)
        assert found is not None
        said = client.post("/console/login", data={"csrf": found[1], "key": key or desk.key("ada")})
        assert said.status_code == 303
        yield client


@pytest.mark.parametrize("csrf", [None, "", "0" * 64])
def test_a_form_without_its_token_changes_nothing(desk: ConsoleDesk, csrf: str | None) -> None:
    review_id = desk.review({"n": 1})
    with session_of(desk) as client:
        said = client.post(f"{desk.place(review_id)}/claim", data={} if csrf is None else {"csrf": csrf})
        assert said.status_code == 403
        assert "reload the page" in said.text
    assert desk.do("GET", f"/scopes/{desk.scope}/reviews/{review_id}")["state"] == "waiting"


def test_a_form_of_another_session_changes_nothing(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1})
    with session_of(desk) as ada, session_of(desk) as other:
        token = CSRF.search(other.get("/console/reviews").text)
        assert token is not None
        assert ada.post(f"{desk.place(review_id)}/claim", data={"csrf": token[1]}).status_code == 403


def test_a_form_that_a_browser_says_is_from_elsewhere_changes_nothing(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1})
    with session_of(desk) as client:
        token = CSRF.search(client.get("/console/reviews").text)
        assert token is not None
        elsewhere = {"sec-fetch-site": "cross-site"}
        said = client.post(f"{desk.place(review_id)}/claim", data={"csrf": token[1]}, headers=elsewhere)
        assert said.status_code == 403
        assert client.post(f"{desk.place(review_id)}/claim", data={"csrf": token[1]}).status_code == 303


def test_a_login_form_of_another_page_is_refused(desk: ConsoleDesk) -> None:
    said = httpx.post(f"{desk.serve.url}/console/login", data={"key": desk.key("ada"), "csrf": ""})
    assert said.status_code == 403
    assert "set-cookie" not in said.headers


@pytest.mark.parametrize("wanted", ["https://evil.test/", "//evil.test", "/\\evil.test", "/console/../v1/keys", "x"])
def test_a_login_leads_to_pages_of_ours_only(desk: ConsoleDesk, wanted: str) -> None:
    with httpx.Client(base_url=desk.serve.url, timeout=limit(30)) as client:
        found = CSRF.search(client.get("/console/login", params={"next": wanted}).text)
        assert found is not None
        said = client.post("/console/login", data={"csrf": found[1], "key": desk.key("ada"), "next": wanted})
        assert said.headers["location"] == "/console/reviews"


def test_every_page_lets_nothing_run_and_nobody_frame_it(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1})
    with session_of(desk) as client:
        pages = ("/console/login", "/console/reviews", desk.place(review_id), "/console/style.css", "/console/nowhere")
        for page in (*pages, f"/console/scopes/{desk.scope}/dead-letters"):
            headers = client.get(page).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert "script-src" not in policy
            assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["/console/scopes/nowhere/reviews/x", "/console/scopes/nowhere/dead-letters", "/console/x"]
)
def test_what_is_not_there_is_a_page_that_says_so(desk: ConsoleDesk, path: str) -> None:
    with session_of(desk) as client:
        said = client.get(path)
    assert (said.status_code, said.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "That did not work" in said.text


def test_somebody_of_another_tenant_sees_nothing_and_changes_nothing(desk: ConsoleDesk) -> None:
    review_id, letter_id = desk.review({"n": 1}), desk.dead_letter({"n": 2})
    with session_of(desk, first_key(desk.serve.database_url, "other")) as stranger:
        inbox = stranger.get("/console/reviews")
        token = CSRF.search(inbox.text)
        assert token is not None
        assert "Nothing waits for a decision here." in inbox.text
        letters = f"/console/scopes/{desk.scope}/dead-letters"
        looked = [stranger.get(place).status_code for place in (desk.place(review_id), letters)]
        tried = [
            stranger.post(place, data={"csrf": token[1], "text": "hello", "field-decision": "approve"}).status_code
            for verb in ("claim", "release", "comment", "decide")
            for place in (f"{desk.place(review_id)}/{verb}", f"{letters}/{letter_id}/review")
        ]
    assert {*looked, *tried} == {404}
    assert desk.do("GET", f"/scopes/{desk.scope}/reviews/{review_id}")["notes"] == []

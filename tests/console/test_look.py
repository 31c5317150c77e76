"""How the console looks: readable in light and dark, whole on a phone, usable without a mouse."""

import pytest
from playwright.sync_api import Page, expect

from tests.console.desk import ConsoleDesk
from tests.contrast import READABLE, contrast, light

PHONE = {"width": 390, "height": 844}
LONG = "Donaudampfschifffahrtsgesellschaftskapitaen" * 4


def pages_of(desk: ConsoleDesk, page: Page) -> list[str]:
    """Every page, with as much on it as there can be; the review is in the person's hands."""
    review_id = desk.review(
        {"text": LONG}, {"title": LONG, "may_correct": True, "input": [{"field": "x", "label": LONG}]}
    )
    desk.dead_letter({"text": LONG}, LONG)
    page.goto(desk.place(review_id))
    page.get_by_role("button", name="Take it").click()
    here = f"{desk.serve.url}/console"
    return [
        f"{here}/reviews?scope={desk.scope}",
        desk.place(review_id),
        f"{here}/scopes/{desk.scope}/dead-letters",
        f"{here}/login",
        f"{here}/nowhere",
    ]


@pytest.mark.parametrize("mode", [pytest.param("light", marks=pytest.mark.whole), "dark"])
def test_the_pages_follow_the_reader_s_mode_and_are_readable_in_it(desk: ConsoleDesk, mode: str) -> None:
    page = desk.person("ada", color_scheme=mode)
    for address in pages_of(desk, page):
        page.goto(address)
        assert (light(page, "body", "backgroundColor") > 0.5) == (mode == "light")
        for selector in ("h1", ".card", ".card .soft", ".facts", ".badge", ".why", "button.main", "label"):
            if page.locator(selector).count() and "login" not in address:
                own = selector in (".badge", "button.main")
                under = selector if own else ".card" if selector not in ("h1", ".facts", "label") else "body"
                ratio = contrast(light(page, selector, "color"), light(page, under, "backgroundColor"))
                assert ratio >= READABLE, f"{selector} has a contrast of {ratio:.1f} in {mode} on {address}"


@pytest.mark.whole  # every page in a browser once more
def test_every_page_fits_a_phone(desk: ConsoleDesk) -> None:
    page = desk.person("ada", viewport=PHONE)
    for address in pages_of(desk, page):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], address


def test_a_review_is_taken_and_decided_without_a_mouse_and_without_scripts(desk: ConsoleDesk) -> None:
    review_id = desk.review({"n": 1}, {"title": "Fine?"})
    page = desk.person("ada", java_script_enabled=False)
    page.goto(desk.place(review_id))
    page.get_by_role("button", name="Take it").focus()
    page.keyboard.press("Enter")
    page.get_by_role("radio", name="Approve").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Decide").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Your decision is recorded.")
    assert desk.message_of(review_id)["state"] == "completed"


def test_every_field_has_a_label(desk: ConsoleDesk) -> None:
    page = desk.person("ada")
    script = """[...document.querySelectorAll("input:not([type=hidden]), select, textarea")]
        .filter(field => field.labels.length === 0).map(field => field.name)"""
    for address in pages_of(desk, page):
        page.goto(address)
        assert page.evaluate(script) == [], address

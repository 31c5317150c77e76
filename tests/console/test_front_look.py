"""How the front page and the API reference look: readable in light and dark, whole on a phone, usable without a mouse."""

import pytest
from playwright.sync_api import expect

from tests.console.desk import ConsoleDesk
from tests.console.test_look import PHONE
from tests.contrast import READABLE, contrast, light


@pytest.mark.parametrize("mode", [pytest.param("light", marks=pytest.mark.whole), "dark"])
def test_the_pages_follow_the_reader_s_mode_and_are_readable_in_it(desk: ConsoleDesk, mode: str) -> None:
    page = desk.visitor(color_scheme=mode)
    for path in ("/", "/docs"):
        page.goto(desk.serve.url + path)
        assert (light(page, "body", "backgroundColor") > 0.5) == (mode == "light")
        for selector in ("h1", "main p", ".soft", "main a", ".method.get", ".method.post", ".summary", ".needed", "th"):
            if page.locator(selector).count():
                ratio = contrast(light(page, selector, "color"), light(page, "body", "backgroundColor"))
                assert ratio >= READABLE, f"{selector} has a contrast of {ratio:.1f} in {mode} on {path}"


def test_every_page_fits_a_phone(desk: ConsoleDesk) -> None:
    page = desk.visitor(viewport=PHONE)
    for path in ("/", "/docs", "/docs#fail_message"):
        page.goto(desk.serve.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path


@pytest.mark.whole  # a browser without scripts
def test_an_operation_is_opened_and_its_type_reached_without_a_mouse_and_without_scripts(desk: ConsoleDesk) -> None:
    page = desk.visitor(java_script_enabled=False)
    page.goto(desk.serve.url)
    page.get_by_role("link", name="API reference").focus()
    page.keyboard.press("Enter")
    operation = page.locator("#fail_message")
    operation.locator("summary").focus()
    page.keyboard.press("Enter")
    operation.get_by_role("link", name="FailureIn").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#type-FailureIn")).to_be_in_viewport()

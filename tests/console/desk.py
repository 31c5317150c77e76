"""A served room for the browser's tests: the process, a plain HTTP client beside it, and people who log in."""

from __future__ import annotations

import re
import uuid
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.pace import limit
from tests.support.serve_process import ServeProcess

INVOICE = {
    "title": "Pay this invoice?",
    "context": [{"title": "Why you are asked", "content": "It is over the limit."}],
    "input": [
        {"field": "amount", "kind": "number", "label": "Amount to pay", "required": True, "minimum": 1, "maximum": 900},
        {"field": "reason", "kind": "multiline", "label": "Reason", "required": True, "only_for": ["reject"]},
        {"field": "urgent", "kind": "boolean", "label": "Pay today"},
        {"field": "account", "kind": "choice", "label": "From account", "choices": ["main", "travel"]},
    ],
    "may_correct": True,
    "timeout_s": 1800,
}


class Visitors:
    """The browsers of those who come one after the other. Who leaves is forgotten, and the next one gets the same browser: to
    start one takes as long as most tests."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: list[Page] = []
        self._usual: set[BrowserContext] = set()

    def come(self, **options: Any) -> Page:
        """Whatever the page's console complains about fails the test. One with `options` gets a browser of its own."""
        if not options and self._free:
            return self._free.pop()
        wanted: dict[str, Any] = {"viewport": {"width": 1200, "height": 900}, **options}
        context = self._browser.new_context(**wanted)
        context.set_default_timeout(limit(30_000))
        page = context.new_page()
        page.on("pageerror", _complain)
        page.on("dialog", _complain)
        page.on("console", lambda said: _complain(said.text) if "Content Security" in said.text else None)
        if not options:
            self._usual.add(context)
        return page

    def leave(self, page: Page) -> None:
        if page.context not in self._usual:
            page.context.close()
            return
        for tab in page.context.pages:
            if tab is not page:
                tab.close()
        page.context.clear_cookies()
        page.goto("about:blank")
        self._free.append(page)


class ConsoleDesk:
    """One scope of its own for each test, and short ways to fill it."""

    def __init__(self, serve: ServeProcess, visitors: Visitors) -> None:
        self.serve = serve
        self.visitors = visitors
        self._pages: list[Page] = []
        self.http = httpx.Client(
            base_url=serve.url, headers={"authorization": f"Bearer {serve.key}"}, timeout=limit(30)
        )
        self.scope = f"s{uuid.uuid4().hex[:8]}"
        self.do("POST", "/scopes", {"slug": self.scope})
        self.do("POST", f"/scopes/{self.scope}/queues", {"slug": "invoices"})

    def do(self, method: str, path: str, body: Any = None) -> Any:
        said = self.http.request(method, f"/v1{path}", **({} if body is None else {"json": body}))
        assert said.is_success, f"{method} {path}: {said.status_code} {said.text}"
        return said.json()["data"] if said.content else None

    def key(self, name: str, *permissions: str, **limits: Any) -> str:
        made = self.do(
            "POST", "/keys", {"name": name, "permissions": list(permissions or ("view", "review")), **limits}
        )
        return made["secret"]

    def review(self, body: Any, spec: dict[str, Any] | None = None) -> str:
        """Publishes a message that asks for a decision; the review's id."""
        message = {"body": body, "hitl_spec": INVOICE if spec is None else spec}
        made = self.do("POST", f"/scopes/{self.scope}/queues/invoices/messages", message)
        found = self.do("GET", f"/scopes/{self.scope}/reviews?limit=500")
        (review,) = [each["id"] for each in found if each["message_id"] == made["id"]]
        return review

    def dead_letter(self, body: Any, reason: str = "no such account") -> str:
        queue = f"/scopes/{self.scope}/queues/invoices"
        self.do("POST", f"{queue}/messages", {"body": body, "message_type": "invoice"})
        (claimed,) = self.do("POST", f"{queue}/claim", {})
        failing = {"claim_token": claimed["claim_token"], "reason": reason, "dead": True}
        self.do("POST", f"/scopes/{self.scope}/messages/{claimed['id']}/fail", failing)
        return claimed["id"]

    def message_of(self, review_id: str) -> dict[str, Any]:
        review = self.do("GET", f"/scopes/{self.scope}/reviews/{review_id}")
        return self.do("GET", f"/scopes/{self.scope}/messages/{review['message_id']}")

    def place(self, review_id: str) -> str:
        return f"{self.serve.url}/console/scopes/{self.scope}/reviews/{review_id}"

    # --- people ----------------------------------------------------------------------------------------------------------

    def visitor(self, **options: Any) -> Page:
        """A browser of somebody who is not logged in."""
        self._pages.append(self.visitors.come(**options))
        return self._pages[-1]

    def person(self, name: str, key: str | None = None, **options: Any) -> Page:
        """Somebody who is logged in."""
        page = self.visitor(**options)
        page.goto(f"{self.serve.url}/console")
        log_in(page, key or self.key(name))
        expect(page.get_by_role("heading", name="Reviews")).to_be_visible()
        return page

    def close(self) -> None:
        for page in self._pages:
            self.visitors.leave(page)
        self.http.close()


def log_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()


def _complain(what: object) -> None:
    raise AssertionError(f"the page complains: {what}")


CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')

"""What somebody meets who opens the server's address: a page that says what this is, and a reference that can be read."""

import re
from pathlib import Path

import pytest

from tests.support.room import Room, served
from tests.support.serve_process import sqlite_in

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
HTTP_API = Path(__file__).parents[2] / "docs" / "how-to" / "http-api.md"
POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


async def test_a_browser_is_shown_what_this_is_and_where_things_are(room: Room) -> None:
    said = await room.http.get("/", headers=BROWSER)
    assert (said.status_code, said.headers["content-type"]) == (200, "text/html; charset=utf-8")
    links = re.findall(r'<a href="(/[^"]*)"', said.text)
    assert links == ["/console", "/docs", "/openapi.json", "/healthz"]
    for link in links:
        assert (await room.http.get(link, headers=BROWSER, follow_redirects=True)).status_code == 200, link


@pytest.mark.parametrize("accept", ["application/json", "*/*", ""])
async def test_a_program_is_told_the_same_as_json(room: Room, accept: str) -> None:
    said = await room.http.get("/", headers={"accept": accept})
    assert said.headers["content-type"] == "application/json"
    told = said.json()
    assert (told["name"], told["version"]) == ("relevo work queues", room.service.settings.version)
    assert told["links"]["docs"] == "/docs"
    assert said.headers["vary"] == "accept"


@pytest.mark.parametrize("path", ["/", "/docs", "/docs/style.css"])
async def test_pages_need_no_key_run_no_script_and_bring_nothing_from_elsewhere(room: Room, path: str) -> None:
    said = await room.http.get(path, headers=BROWSER | {"authorization": ""})
    assert said.status_code == 200
    assert said.headers["content-security-policy"] == POLICY
    assert "<script" not in said.text
    assert "://" not in said.text


async def test_the_reference_shows_every_operation_and_every_type_of_the_document(room: Room) -> None:
    page = (await room.http.get("/docs", headers=BROWSER)).text
    document = (await room.http.get("/openapi.json")).json()
    operations = [told for path in document["paths"].values() for told in path.values()]
    shown = re.findall(r'<details class="operation" id="([^"]+)">', page)
    assert sorted(shown) == sorted(told["operationId"] for told in operations)
    types = re.findall(r'<article id="type-([^"]+)">', page)
    assert types == list(document["components"]["schemas"])
    anchors = set(re.findall(r'href="#([^"]+)"', page))
    assert anchors - set(re.findall(r'id="([^"]+)"', page)) == set(), "every link within the page leads somewhere"
    assert all(topic["description"] for topic in document["tags"])
    assert {told["tags"][0] for told in operations} == {topic["name"] for topic in document["tags"]}


async def test_operation_ids_are_plain_unique_and_listed(room: Room) -> None:
    document = (await room.http.get("/openapi.json")).json()
    ids = [told["operationId"] for path in document["paths"].values() for told in path.values()]
    assert len(set(ids)) == len(ids)
    assert [each for each in ids if not re.fullmatch(r"[a-z]+(_[a-z]+)+", each) or "_v1" in each] == []
    page = (await room.http.get("/docs", headers=BROWSER)).text
    assert [each for each in ids if f"Operation <code>{each}</code>" not in page] == []
    listed = HTTP_API.read_text().partition("## Operation ids")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`(\w+)`", listed)) == sorted(ids), "they are a promise: change one only with the page"


async def test_a_failed_message_s_error_is_in_the_reference(room: Room) -> None:
    page = (await room.http.get("/docs", headers=BROWSER)).text
    (fail,) = re.findall(r'id="fail_message">.*?</details>', page, re.DOTALL)
    assert '<a href="#type-FailureIn">FailureIn</a> or null' in fail
    assert "up to 10,000 characters" in fail


async def test_without_a_console_none_is_offered(tmp_path: Path) -> None:
    async with served(sqlite_in(tmp_path), console=None) as room:
        assert "/console" not in (await room.http.get("/", headers=BROWSER)).text
        assert "console" not in (await room.http.get("/")).json()["links"]


async def test_other_methods_are_refused_and_other_addresses_are_nowhere(room: Room) -> None:
    assert await room.problem("POST", "/") == (405, "METHOD_NOT_ALLOWED")
    assert await room.problem("GET", "/doc") == (404, "NOT_FOUND")

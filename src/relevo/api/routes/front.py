"""`/` and `/docs`: what a person meets who opens the server's address. No script, nothing from elsewhere, no key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from relevo.api.reference import reference_of
from relevo.api.responses import encode
from relevo.api.serving import serving_of

router = APIRouter(include_in_schema=False)

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-cache",
}

_STYLE = Path(__file__).parents[1] / "static" / "front.css"
_CODE = re.compile(r"`([^`]+)`")
_HTML = "text/html; charset=utf-8"


@router.get("/")
async def front(request: Request) -> Response:
    """A page for browsers, JSON for programs."""
    links = {"docs": "/docs", "openapi": "/openapi.json", "health": "/healthz", "ready": "/readyz"}
    if serving_of(request).has_console:
        links = {"console": "/console"} | links
    told = {"name": request.app.title, "version": request.app.version, "links": links}
    if "text/html" not in request.headers.get("accept", ""):
        return Response(encode(told), headers=HEADERS | {"vary": "accept"}, media_type="application/json")
    text = _templates().get_template("front.html").render(told)
    return Response(text, headers=HEADERS | {"vary": "accept"}, media_type=_HTML)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The reference of the HTTP API, from the document that describes it to programs."""
    pages = serving_of(request).pages
    if "reference" not in pages:
        reference = reference_of(request.app.openapi())
        pages["reference"] = _templates().get_template("reference.html").render(reference=reference)
    return Response(pages["reference"], headers=HEADERS, media_type=_HTML)


@router.get("/docs/style.css")
async def style() -> Response:
    return Response(_STYLE.read_bytes(), headers=HEADERS, media_type="text/css; charset=utf-8")


def prose(text: str) -> Markup:
    """Text with `code` in it.

    >>> prose("`wait_s` < 60")
    Markup('<code>wait_s</code> &lt; 60')
    """
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped the line before


def _templates() -> Environment:
    made: Any = Environment(
        loader=PackageLoader("relevo.api", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["prose"] = prose
    return made

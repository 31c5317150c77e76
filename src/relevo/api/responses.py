"""What goes back: `{"data": …, "meta": {"request_id": …}}`, written once for the fast routes and the others alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from relevo.contract.pages import Meta, Page

encode = msgspec.json.Encoder().encode

JSON = "application/json"


def packed(data: object, request_id: str) -> bytes:
    """The body of an answer. The request id needs no escaping: see `request_id_of`."""
    return enveloped(encode(data), request_id)


def enveloped(data: bytes, request_id: str) -> bytes:
    """The same of data that is JSON already."""
    return b'{"data":%b,"meta":{"request_id":"%b"}}' % (data, request_id.encode())


def packed_ids(ids: Sequence[str], request_id: str) -> bytes:
    """As `packed`, of messages that are new and wait: what `Published` says of each, without an object for it."""
    told = '","state":"pending","duplicate":false},{"id":"'.join(ids)
    told = f'{{"data":[{{"id":"{told}","state":"pending","duplicate":false}}],"meta":{{"request_id":"{request_id}"}}}}'
    return told.encode()


def answer(data: object, request_id: str, status: int = 200) -> Response:
    return Response(packed(data, request_id), status, media_type=JSON)


def page_answer(page: Page[Any], request_id: str, items: object = None) -> Response:
    """One page; `items` instead of the page's own when they are shown in another form."""
    meta = Meta(request_id=request_id, next_cursor=page.next_cursor, search_behind_s=page.behind_s)
    body = {"data": page.items if items is None else items, "meta": meta}
    return Response(encode(body), media_type=JSON)

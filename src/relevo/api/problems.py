"""Errors as RFC 9457 problem documents: a stable `code`, a sentence with the remedy, the request id."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from math import ceil
from typing import Any

import msgspec
from msgspec import structs
from starlette.responses import Response

from relevo import errors
from relevo.contract.problems import Problem
from relevo.errors import NotFound, StoreUnavailable, WorkError
from relevo.work.store.outage import is_fault

log = logging.getLogger("relevo.api")

PROBLEM_JSON = "application/problem+json"
ABOUT = "https://www.rfc-editor.org/rfc/rfc9110#status."

TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not permitted",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    422: "Invalid input",
    429: "Too many",
    500: "Internal error",
    503: "Unavailable",
}


class Internal(WorkError):
    """What nobody foresaw."""

    message = "The server failed, not your request: the log has the cause under this request id."


BY_CODE: dict[str, type[WorkError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, WorkError) and "code" in vars(kind)
}
"""Every error by the code of its problem document."""


def problem_of(error: WorkError, request_id: str) -> Problem:
    detail = " ".join(str(error).split())
    found = problem(error.status, error.code, detail, request_id)
    more: dict[str, Any] = {}
    if "wait_s" in error.fields:
        more["retry_after_s"] = error.fields["wait_s"]
    if "faults" in error.fields:
        more["errors"] = error.fields["faults"]
    return structs.replace(found, **more) if more else found


def problem(status: int, code: str, detail: str, request_id: str) -> Problem:
    title = TITLES.get(status, "Error")
    return Problem(title=title, status=status, code=code, detail=detail, request_id=request_id, type="about:blank")


def packed_problem(found: Problem) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Status, body and headers of a problem."""
    body = msgspec.json.encode(found)
    headers = [(b"content-type", PROBLEM_JSON.encode()), (b"content-length", b"%d" % len(body))]
    if found.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="relevo"'))
    if found.status in (429, 503) or found.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % ceil(found.retry_after_s or 1)))
    return found.status, body, headers


def problem_response(found: Problem) -> Response:
    status, body, headers = packed_problem(found)
    response = Response(body, status)
    response.raw_headers = [*headers, (b"x-request-id", found.request_id.encode())]
    return response


def known(error: BaseException) -> WorkError:
    """Whatever went wrong as an error of ours. What nobody foresaw is logged, and told without its inner words."""
    if isinstance(error, WorkError):
        return error
    if is_fault(error):  # of a part that has not asked through the database
        log.warning("the database does not answer: %s", type(error).__name__, exc_info=error)
        return StoreUnavailable(reason=type(error).__name__)
    log.error("a request failed", exc_info=error)
    return Internal()


def refused(code: str, detail: str, request_id: str) -> Problem:
    """The refusal of one item, as the answer to a request for that item alone."""
    kind = BY_CODE.get(code, WorkError)
    return problem(kind.status, code, detail, request_id)


def documented(kinds: Iterable[type[WorkError]]) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an OpenAPI operation for these errors."""
    codes: dict[int, list[str]] = {}
    for kind in kinds:
        codes.setdefault(kind.status, []).append(kind.code)
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": " or ".join(sorted(set(names))), "content": {PROBLEM_JSON: {"schema": schema}}}
        for status, names in sorted(codes.items())
    }


def document_also(
    responses: dict[int | str, dict[str, Any]], kinds: Iterable[type[WorkError]]
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an operation, with further errors."""
    merged = dict(responses)
    for status, answer in documented(kinds).items():
        known = merged.get(status)
        merged[status] = (
            answer | {"description": f"{known['description']} or {answer['description']}"} if known else answer
        )
    return merged


def nowhere(path: str) -> NotFound:
    return NotFound(what="address", name=path[:200])

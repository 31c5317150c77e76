"""One call as data: where it goes, what it sends, what comes back, and whether it may be sent again."""

from __future__ import annotations

import math
import random
import ssl
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Generic, TypeVar, cast, get_args, get_origin
from urllib.parse import quote

import httpx
import msgspec

from relevo import errors
from relevo.arguments import instance
from relevo.contract.pages import Meta, Page
from relevo.contract.problems import Fault
from relevo.errors import (
    BadArgument,
    IdempotencyKeyBusy,
    KeyMissing,
    ServiceUnreachable,
    StoreUnavailable,
    WorkError,
)

T = TypeVar("T")

RETRIED_STATUSES = frozenset({502, 503, 504})
BY_CODE: dict[str, type[WorkError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, WorkError) and "code" in vars(kind)
}

_KEY = "Pass the text of an API key, such as the one that `relevo up` keeps in data/work.key."


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request. `safe`: sending it twice does what sending it once does. `once`: it carries an idempotency key, which makes
    it so."""

    method: str
    path: str
    returns: type[T] | UnionType | None
    """What the data of the answer is; of a listing a `Page` of it."""
    body: Any = None
    question: Mapping[str, Any] = field(default_factory=dict[str, Any])
    safe: bool = True
    once: bool = False
    yields: bool = False
    """What it took, if it did and its answer was lost, comes back by itself (a claim): it is sent again when the server says
    that its database was away."""
    waits_s: float = 0.0
    """How long the server may take on purpose (a long poll)."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def sent_headers(self) -> Mapping[str, str]:
        """For all attempts of one sending: with a key of its own where the server looks for one."""
        return {**self.headers, "idempotency-key": uuid.uuid4().hex} if self.once else self.headers

    def content(self) -> bytes | None:
        return None if self.body is None else msgspec.json.encode(self.body)

    def params(self) -> httpx.QueryParams | None:
        pairs: list[tuple[str, str | int | float | bool | None]] = []
        for name, value in self.question.items():
            if isinstance(value, Mapping):
                labels = cast("Mapping[str, str]", value)
                pairs += [(name, f"{label}={each}") for label, each in labels.items()]
            elif isinstance(value, list | tuple):
                pairs += [(name, str(each)) for each in cast("list[object]", value)]
            elif value is not None:
                pairs.append((name, str(value).lower() if isinstance(value, bool) else str(value)))
        return httpx.QueryParams(pairs) if pairs else None

    def read(self, response: httpx.Response) -> T:
        """The answer's data as its type, or the error of its problem document."""
        if not response.is_success:
            raise problem_in(response)
        if self.returns is None:
            return None  # pyright: ignore[reportReturnType] - a Call[None]
        paged = get_origin(self.returns) is Page
        kind = list[get_args(self.returns)[0]] if paged else self.returns
        try:
            answer = msgspec.json.decode(response.content, type=_envelope(kind))
        except msgspec.MsgspecError as error:
            raise unknown_answer(response, str(error)) from None
        return Page(answer.data, answer.meta.next_cursor) if paged else answer.data  # pyright: ignore[reportReturnType]


_envelopes: dict[Any, Any] = {}


def _envelope(kind: Any) -> Any:
    made = _envelopes.get(kind)
    if made is None:
        made = _envelopes[kind] = msgspec.defstruct("Envelope", [("data", kind), ("meta", Meta)])
    return made


def problem_in(response: httpx.Response) -> WorkError:
    """The error a problem document stands for: its class by its code, its message as the server wrote it."""
    try:
        told = response.json()
        code, detail, request_id = str(told["code"]), str(told["detail"]), str(told.get("request_id", ""))
    except (ValueError, KeyError, TypeError):
        return unknown_answer(response, "it is no problem document")
    more = {"errors": _faults_in(told.get("errors", ())), "retry_after_s": told.get("retry_after_s")}
    return told_error(code, detail, request_id, response.status_code, **more)


def _faults_in(told: Any) -> list[Fault]:
    try:
        return msgspec.convert(told, list[Fault])
    except msgspec.ValidationError:
        return []


def told_error(code: str, detail: str, request_id: str = "", status: int = 0, **more: object) -> WorkError:
    kind = BY_CODE.get(code, WorkError)
    error = kind.__new__(kind)
    fields: dict[str, object] = {"detail": detail, "request_id": request_id, "http_status": status or kind.status}
    error.fields = {"errors": (), "retry_after_s": None, **fields, **more}
    RuntimeError.__init__(error, detail)
    return error


def unknown_answer(response: httpx.Response, reason: str) -> WorkError:
    detail = f"The answer {response.status_code} of {response.request.url} cannot be read: {reason}."
    return told_error("INTERNAL", detail, status=response.status_code)


def checked_url(url: object) -> str:
    """The address of a server, without the stroke at its end.

    >>> checked_url("http://127.0.0.1:6391/")
    'http://127.0.0.1:6391'
    """
    instance("url", url, str, remedy='Pass "http://127.0.0.1:6391" or the like.')
    address = str(url).strip()
    if not address.startswith(("http://", "https://")):
        remedy = "Write http:// or https:// before it."
        raise BadArgument(argument="url", value=url, reason="it is no address of HTTP", remedy=remedy)
    return address.rstrip("/")


def checked_key(key: object) -> str:
    """An API key, without what a file may have around it. No error shows it."""
    if not key:
        raise KeyMissing
    if not isinstance(key, str):
        raise BadArgument(argument="key", value="...", reason=f"expected str, got {type(key).__name__}", remedy=_KEY)
    text = key.strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise BadArgument(argument="key", value="...", reason="a key has no spaces, line ends or accents", remedy=_KEY)
    return text


def trusted_at(url: str) -> ssl.SSLContext | bool:
    """Whom to trust at this address: the usual authorities, or nobody where no TLS is spoken. To read the certificates of all
    authorities takes longer than most calls.

    >>> trusted_at("https://queues.example.com"), trusted_at("http://127.0.0.1:6391").get_ca_certs()
    (True, [])
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http://") else True


def unreachable(url: str, error: Exception) -> ServiceUnreachable:
    return ServiceUnreachable(url=url, reason=str(error) or type(error).__name__)


def may_retry(call: Call[Any], error: Exception | None, response: httpx.Response | None) -> bool:
    """A connection that was never made changed nothing; one that broke may have, so only what is safe is sent again."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return True
    if error is not None:
        return call.safe
    if response is None:
        return False
    if call.once and response.status_code == 409:  # an attempt of ours, whose answer was lost, is still being worked on
        return problem_in(response).code == IdempotencyKeyBusy.code
    if call.yields and response.status_code == 503:
        return problem_in(response).code == StoreUnavailable.code
    return response.status_code in RETRIED_STATUSES and call.safe


def pause_s(attempt: int, response: httpx.Response | None = None, left_s: float = math.inf) -> float:
    """Half to full of 0.1 s, doubled with each attempt up to 5 s. A server that says `Retry-After` is given that and up to a
    fifth more, so that not all come back at once; when less than that is left, the last attempt is made at its end."""
    pause = min(0.1 * 2**attempt, 5.0) * random.uniform(0.5, 1.0)
    wanted = "" if response is None else response.headers.get("retry-after", "")
    if not wanted.isdecimal():  # or a date, which no part of ours sends
        return pause
    return max(pause, min(float(wanted) * random.uniform(1.0, 1.2), left_s))


def at(*parts: str) -> str:
    """The path of a resource.

    >>> at("scopes", "billing", "queues", "a/b")
    '/v1/scopes/billing/queues/a%2Fb'
    """
    return "/".join(("/v1", *(quote(part, safe="") for part in parts)))


def given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value.

    >>> given(reason="late", error=None)
    {'reason': 'late'}
    """
    return {name: value for name, value in fields.items() if value is not None}

"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from typing import Annotated

import msgspec

from relevo.contract.fields import about


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a request."""

    pointer: Annotated[
        str,
        about("Where: a JSON pointer into the body, such as `#/items/1/body`, or `query/limit` of a parameter."),
    ]
    code: Annotated[str, about("A stable name of the fault, such as `UNKNOWN_FIELD`.")]
    detail: Annotated[str, about("What is wrong there.")]


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong. Programs look at `code`, people read `detail`."""

    title: Annotated[str, about("The kind of error in a few words; the same for every error of a status.")]
    status: Annotated[int, about("The HTTP status of the answer.")]
    code: Annotated[str, about("A stable name of the error, such as `NOT_FOUND`.")]
    detail: Annotated[str, about("What was wrong with this request, and what to do about it.")]
    request_id: Annotated[str, about("The id of the request, as the log of the server has it.")]
    errors: Annotated[
        list[Fault], about("Of a request that was not understood: all that is wrong with it, as far as it can be said.")
    ] = []
    retry_after_s: Annotated[
        float | None, about("After how many seconds to try again, where that is known; `Retry-After` in whole ones.")
    ] = None
    type: Annotated[str, about("Always `about:blank`: `code` tells errors apart.")] = ""

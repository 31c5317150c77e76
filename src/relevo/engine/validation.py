"""Checks of what callers pass: each names the argument, the value and the remedy."""

from __future__ import annotations

from relevo.errors import BadArgument, NameTooLong, WrongType

MAX_NAME_BYTES = 256


def checked_queue_name(name: object) -> str:
    if not isinstance(name, str):
        raise WrongType(argument="queue name", value=name, kind=type(name).__name__, remedy="pass text.")
    if not name.strip():
        raise BadArgument(argument="queue name", value=name, reason="blank", remedy="Give the queue a name.")
    if "{" in name or "}" in name:
        reason, remedy = "braces would break the cluster slot of its keys", "Use other characters."
        raise BadArgument(argument="queue name", value=name, reason=reason, remedy=remedy)
    return name


def checked_job_name(name: object) -> bytes:
    """The name as it travels: UTF-8, at most 256 bytes."""
    if not isinstance(name, str):
        raise WrongType(argument="name", value=name, kind=type(name).__name__, remedy="pass text.")
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise BadArgument(argument="name", value=name, reason="not UTF-8", remedy="Use ordinary text.") from error
    if len(encoded) > MAX_NAME_BYTES:
        raise NameTooLong(name=name, size=len(encoded))
    return encoded


def checked_job_id(job_id: object) -> str:
    if not isinstance(job_id, str):
        raise WrongType(argument="job_id", value=job_id, kind=type(job_id).__name__, remedy="pass text.")
    if not job_id.strip():
        raise BadArgument(argument="job_id", value=job_id, reason="blank", remedy="Leave it out, or pass an id.")
    try:
        job_id.encode()
    except UnicodeEncodeError as error:
        raise BadArgument(argument="job_id", value=job_id, reason="not UTF-8", remedy="Use ordinary text.") from error
    return job_id


def positive(argument: str, value: object, *, zero: bool = False) -> int:
    least = 0 if zero else 1
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongType(argument=argument, value=value, kind=type(value).__name__, remedy="pass a whole number.")
    if value < least:
        raise BadArgument(argument=argument, value=value, reason="too small", remedy=f"Pass {least} or more.")
    return value

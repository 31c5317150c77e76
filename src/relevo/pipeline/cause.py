"""Why a Spark job stopped, in one sentence, and whether it is worth another try: Spark wraps it in pages of stack traces."""

from __future__ import annotations

import re

_OURS = re.compile(
    r"""^[ \t]*(?:relevo\.errors|redis\.exceptions)[\w.]*:[ ]   # the last line of a traceback of ours
        (?P<said>.+(?:\n(?![ \t]*(?:at[ ]|File[ ]|Traceback|SQLSTATE|\n)).+)*)""",
    re.MULTILINE | re.VERBOSE,
)
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"^[\w.]+(?:Error|Exception)(?:: .*)?$", re.MULTILINE)
"""The last line of a Python traceback."""
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_WORKER = re.compile(
    r"""Python\ worker\ (?:failed\ to\ connect\ back|exited\ unexpectedly)
        |Timed\ out\ while\ waiting\ for\ the\ Python\ worker\ to\ connect\ back
        |EOFException\ occurred\ while\ reading\ the\ port\ number
        |Failed\ to\ open\ (?:a\ )?socket\ to\ Python\ daemon
        |java\.(?:io|net)\.\w+:\ (?:Broken\ pipe|Connection\ reset)
        |ExecutorLostFailure""",
    re.VERBOSE,
)
"""A Python process of Spark, or an executor, that did not start or did not live. Not a broken pipe to a Redis: that is
Python's own error, and not Java's."""


def cause_of(error: BaseException) -> str:
    """What our own code said last, or else the first line of what Spark says; without its full stop.

    >>> cause_of(
    ...     RuntimeError("Job aborted\\nrelevo.errors.DataLost: Entries of q\\nwere trimmed.\\n\\tat org.apache.spark")
    ... )
    'Entries of q were trimmed'
    >>> cause_of(ValueError("[PARSE_ERROR] no SQL SQLSTATE: 42601\\nmore")), cause_of(KeyError())
    ('[PARSE_ERROR] no SQL', 'KeyError')
    >>> cause_of(
    ...     RuntimeError("Reason: Traceback (most recent call last):\\n  File x\\nOSError: [Errno 28] No space left")
    ... )
    'OSError: [Errno 28] No space left'
    """
    text = str(error).strip()
    found = [match["said"] for match in _OURS.finditer(text)]
    said = found[-1] if found else text.partition("\n")[0]
    if said.endswith(_TRACEBACK) and (raised := _RAISED.findall(text)):
        said = raised[-1]
    return _STATE.sub("", " ".join(said.split())).rstrip(".") or type(error).__name__


def worker_failure(error: BaseException) -> str | None:
    """What happened to a Python worker or an executor, or None when the cause is another: our own code's word counts first.

    >>> worker_failure(RuntimeError("Job aborted: Python worker exited unexpectedly (crashed)"))
    'Python worker exited unexpectedly'
    >>> worker_failure(
    ...     RuntimeError("Job aborted\\nrelevo.errors.DataLost: Entries of q\\nPython worker exited unexpectedly")
    ... )
    """
    text = str(error)
    found = _WORKER.search(text)
    return None if found is None or _OURS.search(text) else found[0]

"""Why a Spark job stopped, in one sentence: Spark wraps it in pages of stack traces."""

from __future__ import annotations

import re

_OURS = re.compile(
    r"""^[ \t]*(?:relevo\.errors|redis\.exceptions)[\w.]*:[ ]   # the last line of a traceback of ours
        (?P<said>.+(?:\n(?![ \t]*(?:at[ ]|File[ ]|Traceback|SQLSTATE|\n)).+)*)""",
    re.MULTILINE | re.VERBOSE,
)
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")


def cause_of(error: BaseException) -> str:
    """What our own code said last, or else the first line of what Spark says; without its full stop.

    >>> cause_of(
    ...     RuntimeError("Job aborted\\nrelevo.errors.DataLost: Entries of q\\nwere trimmed.\\n\\tat org.apache.spark")
    ... )
    'Entries of q were trimmed'
    >>> cause_of(ValueError("[PARSE_ERROR] no SQL SQLSTATE: 42601\\nmore")), cause_of(KeyError())
    ('[PARSE_ERROR] no SQL', 'KeyError')
    """
    text = str(error).strip()
    found = [match["said"] for match in _OURS.finditer(text)]
    said = found[-1] if found else text.partition("\n")[0]
    return _STATE.sub("", " ".join(said.split())).rstrip(".") or type(error).__name__

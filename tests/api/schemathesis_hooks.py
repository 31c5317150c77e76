"""Loaded by schemathesis: two of three generated requests are about things that exist, made a moment before they are sent.

With ids of its own making nearly every request ends at a 404, and says nothing about what lies behind.
"""

from __future__ import annotations

import os
from itertools import count
from typing import Any

import schemathesis

from tests.support.seeds import Seeds

_seeds = Seeds(os.environ["RELEVO_TEST_URL"], os.environ["RELEVO_TEST_KEY"], f"run{os.getpid()}")
_requests = count()


_KEYS = "/v1/keys/"
"""Here always: it learns ids from answers, and would end the very key it works with."""


@schemathesis.hook  # pyright: ignore[reportUnknownMemberType] - its own types are partial
def before_call(_: Any, case: Any, **__: Any) -> None:
    operation = case.operation
    method, path = operation.method.upper(), operation.path
    if "{" not in path or (next(_requests) % 3 == 0 and not path.startswith(_KEYS)):
        return
    found = _seeds.path_of(method, path)
    if case.path_parameters:
        case.path_parameters.update({name: found[name] for name in case.path_parameters if found.get(name)})
    case.body = _seeds.body_for(path, case.body, found)

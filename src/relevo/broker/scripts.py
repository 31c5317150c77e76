"""Lua scripts: one file each in lua/, named after the one function that calls it.

Scripts that settle an entry begin with the line `--!gate`; it stands for `gate_native.lua` or `gate_plain.lua`, so the same
script uses XACKDEL where the server has it and XACK + XDEL where not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from relevo.broker.capabilities import Capabilities
from relevo.broker.resp import Argument, pack

_GATE = "--!gate"


class Script:
    """One script; its text depends on what the server can do."""

    def __init__(self, name: str) -> None:
        self.name = name
        text = _read(name)
        needs_gate = text.startswith(_GATE)
        self._texts = {
            native: text.replace(_GATE, _read("gate_native" if native else "gate_plain"), 1) if needs_gate else text
            for native in (True, False)
        }
        self._shas = {
            native: hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()
            for native, body in self._texts.items()
        }

    def text(self, capabilities: Capabilities) -> str:
        return self._texts[capabilities.ack_delete]

    def call(
        self, capabilities: Capabilities, keys: Sequence[bytes], arguments: Sequence[Argument], *, whole: bool = False
    ) -> bytes:
        """The packed call: EVALSHA, or EVAL with the text when the server would not keep it (`whole`)."""
        native = capabilities.ack_delete
        verb, body = ("EVAL", self._texts[native]) if whole else ("EVALSHA", self._shas[native])
        return pack((verb, body, len(keys), *keys, *arguments))


@cache
def script(name: str) -> Script:
    """The script in `lua/<name>.lua`."""
    return Script(name)


def _read(name: str) -> str:
    return files("relevo.broker").joinpath(f"lua/{name}.lua").read_text()

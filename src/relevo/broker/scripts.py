"""Lua scripts: one file each in lua/, named after the one function that calls it.

A first line `--!name` stands for what several scripts share: `--!member` (reading delayed members), `--!lane` (moving jobs
out of lanes), `--!window` and `--!bucket` (rates), `--!forget` (letting go of what an id holds) and `--!gate` (taking an
entry out of the group: XACKDEL where the server has it, XACK + XDEL where not).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from relevo.broker.capabilities import Capabilities
from relevo.broker.resp import Argument, pack


class Script:
    """One script; its text depends on what the server can do."""

    def __init__(self, name: str, *, room: str = "relevo.broker") -> None:
        self.name = name
        text = files(room).joinpath(f"lua/{name}.lua").read_text()
        self._texts = {native: _whole(text, native) for native in (True, False)}
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
def script(name: str, *, room: str = "relevo.broker") -> Script:
    """The script in `lua/<name>.lua` of a room."""
    return Script(name, room=room)


def _whole(text: str, native: bool) -> str:
    """The text with the shared parts that its first lines ask for put in their place."""
    window, bucket = _read("window"), _read("bucket")
    shared = {
        "--!gate": _read("gate_native") if native else _read("gate_plain"),
        "--!member": _read("member"),
        "--!lane": window + bucket + _read("lane"),
        "--!window": window,
        "--!bucket": bucket,
        "--!flow": _read("flow"),
        "--!forget": _read("forget"),
    }
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line not in shared:
            break
        lines[at] = shared[line]
    return "\n".join(lines)


def _read(name: str) -> str:
    return files("relevo.broker").joinpath(f"lua/{name}.lua").read_text()

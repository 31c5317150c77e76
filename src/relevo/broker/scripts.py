"""Lua scripts: one file each, in the folder lua/ beside the one module that calls it.

A first line `--!name` stands for what several scripts of a room share, which is in the lua/ folder of the room itself, such as
`--!member` (reading delayed members) in engine/lua/. `--!gate` takes an entry out of the group: by XACKDEL where the server has
it (gate_native.lua), by XACK and XDEL where not (gate_plain.lua).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from relevo.broker.capabilities import Capabilities
from relevo.broker.resp import Argument, pack

_SHARED = "--!"


class Script:
    """One script; its text depends on what the server can do."""

    def __init__(self, name: str, module: str) -> None:
        self.name = name
        package, room = module.rpartition(".")[0], ".".join(module.split(".")[:2])
        text = _read(package, name)
        self._texts = {native: _whole(text, room, native) for native in (True, False)}
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
def script(name: str, module: str) -> Script:
    """The script in `lua/<name>.lua` beside `module`, which passes its `__name__`."""
    return Script(name, module)


def _whole(text: str, room: str, native: bool) -> str:
    """The text with the shared parts that its first lines ask for put in their place; these may ask for others."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if not line.startswith(_SHARED):
            break
        shared = line.removeprefix(_SHARED)
        if shared == "gate":
            shared = "gate_native" if native else "gate_plain"
        lines[at] = _whole(_read(room, shared), room, native)
    return "\n".join(lines)


def _read(package: str, name: str) -> str:
    return files(package).joinpath(f"lua/{name}.lua").read_text()

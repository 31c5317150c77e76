"""Names of queues for the shell: what there is on the server that a command would ask, if it answers at once."""

from __future__ import annotations

import asyncio
import os

from relevo.broker.resp import Reply
from relevo.cli.shell.redis_server import Server
from relevo.errors import RelevoError
from relevo.wire.keys import QueueKeys

_PATIENCE_S = 0.5
_MOST_STEPS = 20


def complete_queue(incomplete: str) -> list[str]:
    """Queues whose name begins like this; none, without a word, when the server cannot be asked.

    Of a cluster only one node is asked, and of a server with very many keys only the first: a Tab key must not be slow.
    """
    server = Server(os.environ.get("RELEVO_REDIS_URL"), _PATIENCE_S, quiet=True)
    try:
        names = asyncio.run(_queue_names(server))
    except (RelevoError, OSError):
        return []
    return sorted(name for name in names if name and name.startswith(incomplete))


async def _queue_names(server: Server) -> set[str]:
    names: set[str] = set()
    async with server.link(QueueKeys("completion")) as link:
        cursor = b"0"
        for _ in range(_MOST_STEPS):
            reply: Reply = await link.call("SCAN", cursor, "MATCH", b"{chasqui:*}:*", "COUNT", 1000)
            cursor, found = reply
            names.update(key[len(b"{chasqui:") : key.index(b"}")].decode(errors="replace") for key in found)
            if cursor == b"0":
                break
    return names

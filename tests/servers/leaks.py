"""Finds keys that a test left behind for ever.

A queue owns a few durable keys; every other key must have a TTL, or a busy system fills Redis with what nobody reads.
"""

import re
from fnmatch import fnmatchcase

from tests.servers.server import Server

# The registry of queues. Of `{chasqui:<queue>}:<name>`: the queue itself.
# A pause, a repeat, a cap and a limit last until someone ends them.
_DURABLE = re.compile(
    rb"\{chasqui:\}:queues|"
    rb"\{chasqui:[^}]*\}:(stream|dlq|delayed|repeat|repeat:paused|repeat:declared|repeat:spec:.*|events|paused|cap|lanes:limits)",
    re.DOTALL,
)


class KeyLeaks:
    """Checks servers after one test; `allow` names keys the test made for a purpose."""

    def __init__(self) -> None:
        self._allowed: list[str] = []

    def allow(self, *patterns: str) -> None:
        """Exempts keys that match a pattern such as `scratch:*` (shell style)."""
        self._allowed.extend(patterns)

    def found(self, server: Server) -> list[bytes]:
        """The leaked keys."""
        return sorted(
            key for key in server.keys_without_ttl() if _DURABLE.fullmatch(key) is None and not self._may(key)
        )

    def check(self, server: Server) -> None:
        """Fails when keys leaked; a server that the test has killed or paused is not asked."""
        if server.answers() and (leaked := self.found(server)):
            raise AssertionError(f"keys without a TTL were left behind on {server.name}: {leaked}")

    def _may(self, key: bytes) -> bool:
        # `fnmatch` knows [sets] but the hash tag's braces are plain to it.
        return any(fnmatchcase(key.decode(errors="backslashreplace"), pattern) for pattern in self._allowed)

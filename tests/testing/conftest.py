"""The helpers are tested with their own fixtures, on every kind of server.

Only the server is another than in a project that uses them: theirs is the embedded one, which test_plugin.py shows.
"""

import pytest

from relevo.testing.plugin import relevo_clock, relevo_queue, relevo_worker
from tests.servers.server import Server

__all__ = ["relevo_clock", "relevo_queue", "relevo_server", "relevo_worker"]


@pytest.fixture
def relevo_server(server: Server) -> Server:
    return server

"""The helpers are tested with their own fixtures, on their own server."""

from relevo.testing.plugin import relevo_clock, relevo_queue, relevo_server, relevo_worker

__all__ = ["relevo_clock", "relevo_queue", "relevo_server", "relevo_worker"]

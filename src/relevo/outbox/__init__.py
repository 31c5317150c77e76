"""The outbox: jobs enqueued inside a database transaction, sent once it is committed. Needs `pip install relevo[outbox]`."""

from relevo.outbox.outbox import Outbox
from relevo.outbox.relay import OutboxRelay, RelayTick
from relevo.outbox.table import OutboxTable

__all__ = ["Outbox", "OutboxRelay", "OutboxTable", "RelayTick"]

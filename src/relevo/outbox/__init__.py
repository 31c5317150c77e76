"""The outbox: jobs enqueued inside a database transaction, sent once it is committed. Needs `pip install 'relevo[outbox]'`."""

from relevo.errors import DependencyMissing

try:
    import sqlalchemy  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as error:
    raise DependencyMissing(what="relevo.outbox", package="sqlalchemy", extra="relevo[outbox]") from error

from relevo.outbox.outbox import Outbox
from relevo.outbox.relay import OutboxRelay, RelayTick
from relevo.outbox.table import OutboxTable

__all__ = ["Outbox", "OutboxRelay", "OutboxTable", "RelayTick"]

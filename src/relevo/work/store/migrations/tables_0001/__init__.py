"""The tables as the first step makes them, frozen: `store/tables` goes on, this stays. What columns are for is said there."""

from __future__ import annotations

from relevo.work.store.migrations.tables_0001 import (
    access,
    broadcast,
    dead_letter,
    installation,
    journal,
    message,
    retention,
    review,
    routing,
    schema,
    search,
    tenancy,
    webhook,
)
from relevo.work.store.migrations.tables_0001.columns import metadata

__all__ = [
    "access",
    "broadcast",
    "dead_letter",
    "installation",
    "journal",
    "message",
    "metadata",
    "retention",
    "review",
    "routing",
    "schema",
    "search",
    "tenancy",
    "webhook",
]

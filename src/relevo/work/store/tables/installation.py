"""What belongs to the installation as a whole: its settings, and the runs of its agents."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column

from relevo.work.store.tables.columns import Document, exact, table, words

settings = table(
    "settings",  # what belongs to the installation as a whole: its id, which names its keys in Redis
    Column("name", exact(64), primary_key=True),
    Column("value", Document, nullable=False),
)

agent_runs = table(
    "agent_runs",  # one row an agent: its last run and who may run it now
    Column("agent", exact(40), primary_key=True),
    Column("last_started_at", BigInteger, nullable=True),
    Column("last_finished_at", BigInteger, nullable=True),
    Column("last_items", BigInteger, nullable=True),
    Column("last_error", Document, nullable=True),
    Column("last_node", words(100), nullable=True),
    Column("runs", BigInteger, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("lease_holder", words(100), nullable=True),
    Column("lease_until", BigInteger, nullable=True),
)

"""How long a transaction may stand still, and how long another waits for its locks.

A node that dies without a word (a power cut, a pulled cable, a stopped virtual machine) leaves its transactions open: the
database learns of it from TCP after minutes or hours, and until then its locks hold up everybody who wants the same rows. So
each connection tells the database to end its transaction when it has been idle for `IDLE_S`. Who waits for a lock waits longer
than that, so the death of a node delays requests, and fails none; what waits for even longer is refused (503) instead of
piling up. SQLite has one process, whose locks end with it.

A program of ours that stands still for longer within a transaction, as on a machine with far too much to do, loses it too,
as if it had been killed there: nothing is written, and the transaction runs once more. Whoever stands still again is told so.
"""

from __future__ import annotations

IDLE_S = 10
LOCK_S = 20


def for_postgres() -> dict[str, str]:
    """Settings of a session, as asyncpg takes them."""
    return {
        "lock_timeout": f"{LOCK_S * 1000}",
        "idle_in_transaction_session_timeout": f"{IDLE_S * 1000}",
    }


def for_mariadb() -> str:
    """The same as one statement."""
    return f"SET SESSION innodb_lock_wait_timeout = {LOCK_S}, SESSION idle_transaction_timeout = {IDLE_S}"

"""The three databases of work queues, by name: `sqlite`, `postgres`, `mariadb`."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest

STORES = ("sqlite", "postgres", "mariadb")

_SQLITE = "sqlite:///"
_upgraded: list[bytes] = []
_with_tables: set[str] = set()


def store_url(request: pytest.FixtureRequest, store: str, folder: Path, *, name: str | None = None) -> str:
    """Its address: of the run's own server, where tests share a database, or one called `name` that is made for the test."""
    if store == "sqlite":
        return f"sqlite:///{folder}/{name or 'work'}.db"
    server: Any = request.getfixturevalue(store)
    if name is not None:
        server.create(name)
    named = () if name is None else (name,)
    return server.url("any", *named).replace("+any", "")


async def sqlite_with_tables(file: Path) -> str:
    """The address of a new SQLite file with all tables and no rows. One is upgraded as `relevo db upgrade` does it, once a
    process, and the others are copies: an upgrade costs more than most tests."""
    from relevo.api.service import prepare  # here: most tests need neither FastAPI nor SQLAlchemy

    if not _upgraded:
        with tempfile.TemporaryDirectory() as folder:
            first = Path(folder) / "work.db"
            await prepare(f"{_SQLITE}{first}")
            _upgraded.append(first.read_bytes())
    await asyncio.to_thread(file.write_bytes, _upgraded[0])
    return f"{_SQLITE}{file}"


async def with_tables(url: str) -> bool:
    """Sees that a database has its tables; whether they are new, without rows. A process looks once for those of a server: to
    ask for each of forty costs as much as a test."""
    if url in _with_tables:
        return False
    _with_tables.add(url)
    if url.startswith(_SQLITE):
        await sqlite_with_tables(Path(url.removeprefix(_SQLITE)))
        return True
    from relevo.api.service import prepare

    await prepare(url, upgrade=True)
    return False  # a test may have begun with them otherwise

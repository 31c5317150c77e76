"""The three databases of work queues, by name: `sqlite`, `postgres`, `mariadb`."""

from pathlib import Path
from typing import Any

import pytest

STORES = ("sqlite", "postgres", "mariadb")


def store_url(request: pytest.FixtureRequest, store: str, folder: Path, *, name: str | None = None) -> str:
    """Its address: of the run's own server, where tests share a database, or one called `name` that is made for the test."""
    if store == "sqlite":
        return f"sqlite:///{folder}/{name or 'work'}.db"
    server: Any = request.getfixturevalue(store)
    if name is not None:
        server.create(name)
    named = () if name is None else (name,)
    return server.url("any", *named).replace("+any", "")

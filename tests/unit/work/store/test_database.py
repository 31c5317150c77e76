"""Database addresses: which are understood, and that no password is ever shown."""

import pytest

from relevo.errors import BadDatabaseUrl
from relevo.work.store.database import Database


@pytest.mark.parametrize(
    ("url", "dialect"),
    [
        ("sqlite:///work.db", "sqlite"),
        ("sqlite+aiosqlite:///work.db", "sqlite"),
        ("postgres://u:p@h/d", "postgresql"),
        ("postgresql+psycopg://u:p@h/d", "postgresql"),
        ("mysql://u:p@h/d", "mariadb"),
        ("mariadb+asyncmy://u:p@h/d", "mariadb"),
    ],
)
async def test_an_address_is_understood_with_and_without_a_driver(url: str, dialect: str) -> None:
    assert Database(url).dialect == dialect


@pytest.mark.parametrize(
    "url", ["oracle://u:secret@h/d", "nonsense", "sqlite://", "sqlite:///:memory:", "mysql://u:secret@h"]
)
async def test_an_address_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(BadDatabaseUrl) as refused:
        Database(url)
    assert "secret" not in str(refused.value)


async def test_a_database_does_not_show_its_password() -> None:
    assert "secret" not in repr(Database("postgresql://u:secret@h/d"))

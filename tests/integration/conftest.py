"""What the integration tests share: queues and workers on a server that the test breaks, and a ledger for processes."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from chaos.ledger import Ledger
from tests.integration.staff import Staff


@pytest.fixture
def ledger(tmp_path: Path) -> Generator[Ledger]:
    """What worker processes write down."""
    ledger = Ledger(tmp_path / "ledger")
    yield ledger
    ledger.close()


@pytest.fixture
async def staff(queue_name: str) -> AsyncGenerator[Staff]:
    staff = Staff(queue_name)
    yield staff
    await staff.close()

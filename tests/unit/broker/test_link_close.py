"""Closing a link ends, whatever its connection is going through at that moment."""

import asyncio

import pytest

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.errors import ConnectionLost
from tests.pace import limit
from tests.patience import turn
from tests.servers.process import free_port


@pytest.mark.parametrize("turns", range(16))
async def test_a_link_closed_at_any_turn_of_a_refused_connect_ends(turns: int) -> None:
    link = Link(Address.parse(f"redis://127.0.0.1:{free_port()}"), b"{chasqui:q}", purpose="test")
    waiting = asyncio.create_task(link.ready())
    for _ in range(turns):
        await turn()
    await asyncio.wait_for(link.close(), limit(20))
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(waiting, limit(20))

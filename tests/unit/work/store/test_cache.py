"""What is remembered for a second, and what is not."""

import asyncio

import pytest

from relevo.work.store.cache import SingleFlightCache


class Shelf:
    """Something to look up, which takes until the test lets it; counts the looks."""

    def __init__(self) -> None:
        self.value = "old"
        self.looks = 0
        self.now = 0
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.remembered = SingleFlightCache(self._look, now_ms=lambda: self.now, kept_ms=1000)

    async def _look(self, key: str) -> str:
        self.looks += 1
        seen = self.value
        self.begun.set()
        await self.open.wait()
        if seen == "broken":
            raise LookupError(key)
        return seen


async def test_those_who_ask_while_a_look_is_under_way_share_it() -> None:
    shelf = Shelf()
    asking = [asyncio.ensure_future(shelf.remembered.of("a")) for _ in range(50)]
    await shelf.begun.wait()
    shelf.open.set()
    assert (await asyncio.gather(*asking), shelf.looks) == (["old"] * 50, 1)


async def test_it_is_looked_up_again_when_its_time_is_over() -> None:
    shelf = Shelf()
    shelf.open.set()
    await shelf.remembered.of("a")
    shelf.now, shelf.value = 999, "new"
    assert (await shelf.remembered.of("a"), shelf.remembered.peek("a", None)) == ("old", "old")
    shelf.now = 1000
    assert shelf.remembered.peek("a", None) is None
    assert (await shelf.remembered.of("a"), shelf.looks) == ("new", 2)


async def test_a_look_that_began_before_a_change_is_neither_shared_nor_kept() -> None:
    shelf = Shelf()
    before = asyncio.ensure_future(shelf.remembered.of("a"))
    await shelf.begun.wait()
    shelf.value = "new"
    shelf.remembered.forget("a")
    after = asyncio.ensure_future(shelf.remembered.of("a"))
    shelf.open.set()
    assert (await before, await after) == ("old", "new")
    assert shelf.remembered.peek("a", None) == "new"


async def test_who_goes_away_does_not_end_the_look_of_the_others() -> None:
    shelf = Shelf()
    first, second = (asyncio.ensure_future(shelf.remembered.of("a")) for _ in range(2))
    await shelf.begun.wait()
    first.cancel()
    shelf.open.set()
    assert await second == "old"


async def test_a_look_that_fails_is_not_kept() -> None:
    shelf = Shelf()
    shelf.open.set()
    shelf.value = "broken"
    with pytest.raises(LookupError):
        await shelf.remembered.of("a")
    shelf.value = "new"
    assert await shelf.remembered.of("a") == "new"

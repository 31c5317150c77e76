"""What was erased is gone from the files of SQLite too, where a deleted row's bytes would lie around for long."""

from pathlib import Path

import msgspec
import pytest

from relevo.agents.message_archiver import MessageArchiver
from relevo.contract.messages import NewMessage
from tests.people.conftest import relay
from tests.people.test_erasure import WORD, erase
from tests.support.desk import SCOPE, Desk


def found(folder: Path) -> int:
    """How often the word is in any file of the database, its log included."""
    return sum(file.read_bytes().count(WORD.encode()) for file in folder.iterdir() if file.is_file())


@pytest.mark.parametrize("size", [40, 3_000, 200_000])
async def test_no_byte_of_a_body_is_left_in_the_files_of_sqlite(desk: Desk, tmp_path: Path, size: int) -> None:
    for n in range(60):
        filler = f"{n:04d}" * (size // 4)
        tags = {"subject": "ada" if n % 3 else "bob"}
        word = WORD if n % 3 else "harmless"
        new = NewMessage(body=msgspec.Raw(msgspec.json.encode({"says": word + filler})), labels=tags)
        await desk.work_queues.messages.publish(desk.caller, SCOPE, "jobs", [new])
    claimed = [each for each in await desk.claim(45) if WORD.encode() in bytes(each.body)]
    await desk.settle("complete", claimed[:15], result=msgspec.Raw(msgspec.json.encode(WORD * 3)))
    await desk.settle("fail", claimed[15:], reason=WORD, dead=True)
    await relay(desk)
    desk.clock.turn(minutes=61)
    await MessageArchiver(desk.work_queues).work()
    assert found(tmp_path) > 0
    await erase(desk)
    assert found(tmp_path) == 0
    left = await desk.claim(60)
    assert {b"harmless" in bytes(each.body) for each in left} == {True}

import random
from typing import Any

import msgspec
import pytest

from relevo.work.audit.verifier import Entry, Finding, Verifier
from relevo.work.store.audit_chain import Chain, Head, began_after, entry_hash


def values(number: int) -> tuple[Any, ...]:
    return (1, 2, None, number, "key:a", "message.publish", f"m{number}", "r", None, None, '{"n":1}')


def written(*lengths: int) -> tuple[list[Entry], list[Head]]:
    """Chains of these lengths, each begun after the ones before it."""
    entries: list[Entry] = []
    heads: list[Head] = []
    for at, length in enumerate(lengths):
        chain = Chain(f"c{at}", began_after(heads))
        for number in range(1, length + 1):
            made = chain.link(values(number))
            entries.append(Entry(len(entries) + 1, f"c{at}", *made, values(number)))
        heads.append(chain.head)
    return entries, heads


def verify(entries: list[Entry], heads: list[Head], **known: tuple[int, str]) -> list[Finding]:
    verifier = Verifier(heads, known=known)
    for entry in sorted(entries, key=lambda entry: (entry.chain, entry.number)):
        verifier.add(entry)
    return verifier.finish()


def test_what_was_written_is_found_as_it_was() -> None:
    assert verify(*written(5, 3, 1)) == []


@pytest.mark.parametrize("column", range(11))
def test_an_edit_of_any_column_is_found(column: int) -> None:
    entries, heads = written(5)
    changed: list[Any] = list(entries[2].values)
    changed[column] = "other"
    entries[2] = msgspec.structs.replace(entries[2], values=tuple(changed))
    assert [(finding.kind, finding.number) for finding in verify(entries, heads)] == [("edited", 3)]


def test_an_edit_with_its_hash_made_anew_is_found_in_the_next_entry() -> None:
    entries, heads = written(5)
    forged = entry_hash("c0", 3, entries[1].hash, values(99))
    entries[2] = Entry(3, "c0", 3, forged, values(99))
    assert [(finding.kind, finding.number) for finding in verify(entries, heads)] == [("edited", 4)]


def test_a_removed_entry_is_found() -> None:
    entries, heads = written(5)
    del entries[2]
    assert [(finding.kind, finding.number) for finding in verify(entries, heads)] == [("missing", 3)]


def test_a_cut_off_end_is_found() -> None:
    entries, heads = written(5)
    assert [finding.kind for finding in verify(entries[:3], heads)] == ["cut_off"]


def test_an_end_cut_off_with_its_head_moved_back_is_found_by_heads_kept_elsewhere() -> None:
    entries, heads = written(5)
    moved = [msgspec.structs.replace(heads[0], last_no=3, last_hash=entries[2].hash)]
    assert verify(entries[:3], moved) == []
    kept = (5, entries[4].hash)
    assert [finding.kind for finding in verify(entries[:3], moved, c0=kept)] == ["cut_off"]


def test_a_chain_without_a_head_is_found() -> None:
    entries, heads = written(5, 2)
    assert "unknown_chain" in {finding.kind for finding in verify(entries, heads[:1])}


def test_a_missing_chain_is_found_by_heads_kept_elsewhere() -> None:
    entries, heads = written(5, 2)
    kept = (2, entries[6].hash)
    assert [finding.kind for finding in verify(entries[:5], heads[:1], c1=kept)] == ["chain_missing"]


def test_a_missing_chain_is_found_by_those_that_began_after_it() -> None:
    entries, heads = written(5, 2, 1)
    kinds = [
        finding.kind for finding in verify([entry for entry in entries if entry.chain != "c1"], [heads[0], heads[2]])
    ]
    assert kinds == ["chain_missing"]


def test_an_end_cut_off_with_its_head_is_found_by_chains_that_began_after_it() -> None:
    entries, heads = written(5, 2)
    moved = msgspec.structs.replace(heads[0], last_no=3, last_hash=entries[2].hash)
    left = [entry for entry in entries if entry.chain == "c1" or entry.number <= 3]
    assert [finding.kind for finding in verify(left, [moved, heads[1]])] == ["cut_off"]


def test_a_changed_beginning_is_found() -> None:
    entries, heads = written(5, 2)
    heads[1] = msgspec.structs.replace(heads[1], began_after="[]")
    assert [(finding.kind, finding.chain) for finding in verify(entries, heads)] == [("edited", "c1")]


def test_a_rolled_back_entry_leaves_no_gap() -> None:
    chain = Chain("c0", "[]")
    chain.link(values(1))
    chain.keep()
    chain.link(values(2))
    chain.undo()
    assert chain.link(values(3))[0] == 2


def test_any_single_change_is_found() -> None:
    chance = random.Random(7)
    for _ in range(200):
        entries, heads = written(*(chance.randint(1, 6) for _ in range(3)))
        victim = chance.randrange(len(entries))
        if chance.random() < 0.5:
            del entries[victim]
        else:
            entries[victim] = msgspec.structs.replace(entries[victim], values=values(1000))
        assert verify(entries, heads) != []

"""Every case of the bench: the turns that all servers take in each round, and what is built up once for a case of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.work.beside import finished, pending, two_processes
from benchmarks.work.duties import archiver, promotion
from benchmarks.work.notebook import Notebook
from benchmarks.work.reading import labels, lists, wake

OLD = "64875cd"
"""The relevo that single settles are compared with."""


class Case(NamedTuple):
    """What `--only` names."""

    title: str
    turns: tuple[str, ...] = ()
    """Taken in every round on a server that all cases share."""
    built: Callable[[Notebook], None] | None = None
    """Measured once, on servers of its own."""
    rivals: bool = False
    """Whether the rivals can do the same."""
    old: bool = False
    """Whether it is a ratio to the relevo of `OLD`."""
    not_on: tuple[str, ...] = ()


CASES = {
    "single": Case("single publish by 50 clients", ("single",), rivals=True),
    "batch": Case("batch publish at 100 and at 500", ("batch_100", "batch_500"), rivals=True),
    "batch_uuid": Case("the same with random keys (UUIDs)", ("batch_uuid_100", "batch_uuid_500"), rivals=True),
    "batch_1kb": Case("the same with bodies of 1 kB", ("batch_1kb_100", "batch_1kb_500"), rivals=True),
    "claim_complete": Case("claim and complete 50 and 500", ("claim_complete_50", "claim_complete_500"), rivals=True),
    "settle_each": Case(
        "claim 10 or 1, complete each with a call of its own, 50 clients", ("settle_each_10", "settle_each_1"), old=True
    ),
    "settle_part": Case("settling a part of a claim at a time", ("settle_part",)),
    "priorities": Case("publish and claim by urgency", ("priorities_batch", "priorities_claim")),
    "labels": Case("publish with labels, claim by one at 300k pending", ("labels_batch",), labels),
    "delays": Case("delayed publishes, and what is due", ("delays_batch",), promotion),
    "retries": Case("failures that are tried again", ("retries",)),
    "wake": Case("a long poll is woken", built=wake),
    "pending": Case("claims at 1M pending beside those at 10k", built=pending),
    "finished": Case("batches and claims beside 5M finished", built=finished),
    "two_processes": Case("two processes on two queues", built=two_processes, not_on=("sqlite",)),
    "lists": Case("every list at 1M live and 5M archived", built=lists),
    "archiver": Case("rows a second of message_archiver", built=archiver),
}


def old(store: str) -> str:
    """What the older relevo is called in the figures."""
    return f"{store}, {OLD}"


def turns_of(names: list[str], *, only_old: bool = False) -> list[str]:
    """The turns of some cases, in their order."""
    return [turn for name in names if CASES[name].old or not only_old for turn in CASES[name].turns]

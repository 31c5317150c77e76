"""How much there is of everything in the story."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """How much there is of everything: enough to watch, or little enough for a test."""

    parcels: int
    retries: int
    delayed: int
    spread_ms: int
    letters: int
    stranded: int
    idle_ms: int
    survivors: int
    handling_s: float
    pause_s: float
    slots: int
    slot_ms: int
    flood: int
    few: int


SLOW = Size(
    parcels=20_000,
    retries=60,
    delayed=40,
    spread_ms=3000,
    letters=10,
    stranded=5,
    idle_ms=3000,
    survivors=2000,
    handling_s=0.012,
    pause_s=2.0,
    slots=10,
    slot_ms=400,
    flood=300,
    few=10,
)
FAST = Size(
    parcels=1000,
    retries=10,
    delayed=5,
    spread_ms=400,
    letters=3,
    stranded=2,
    idle_ms=1000,
    survivors=200,
    handling_s=0.0,
    pause_s=0.0,
    slots=4,
    slot_ms=250,
    flood=60,
    few=4,
)

"""What a message is: its states and its priorities. What is handed in and out is in `relevo.contract`."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from relevo.contract.messages import State, Tier

STATES: tuple[State, ...] = get_args(State)
TIERS: tuple[Tier, ...] = get_args(Tier)
"""From the least to the most urgent: a tier's place is the number in its row."""

TERMINAL: frozenset[State] = frozenset({"completed", "failed", "expired", "dead", "cancelled"})
"""States that nobody works on any more. All but `dead` are archived in time: dead letters wait for a decision."""

AS_WRITTEN: Any = msgspec.Raw
"""Puts the JSON of a row into an answer as it is, without a decoding: the field has the type of what a reader gets."""

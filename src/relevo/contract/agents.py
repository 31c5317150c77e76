"""Agents: background duties of the installation."""

from __future__ import annotations

from typing import Annotated

import msgspec

from relevo.contract import fields


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A duty of the installation and its last run."""

    agent: Annotated[str, fields.about("Its name.")]
    about: Annotated[str, fields.about("What it does.")]
    every_s: Annotated[float, fields.about("How many seconds lie between two runs.")]
    running: Annotated[bool, fields.about("Whether it runs at this moment.")]
    last_started_at: Annotated[int | None, fields.about("When its last run began.")]
    last_finished_at: Annotated[int | None, fields.about("When its last run ended.")]
    last_duration_s: Annotated[float | None, fields.about("How long that took, in seconds.")]
    last_items: Annotated[int | None, fields.about("How many things it dealt with.")]
    last_error: Annotated[str | None, fields.about("Why it failed; null when it went well.")]
    last_node: Annotated[str | None, fields.about("The process that ran it.")]
    next_run_at: Annotated[int | None, fields.about("When it runs next.")]
    runs: Annotated[int, fields.about("How often it has run.")]
    failures: Annotated[int, fields.about("How many runs failed.")]

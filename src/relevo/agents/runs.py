"""The record of each agent's runs, and its lease: who may run it now. One row an agent, the same for every process.

The lease is in SQL and not in Redis because agents must go on when Redis is away. It spares work and never guards data: every
agent may run twice at once, so a lease that ends too early (a process that stood still, clocks that differ) costs little.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from sqlalchemy import insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.elements import ColumnElement

from relevo.contract.agents import Agent as AgentRun
from relevo.work.store.tables import agent_runs
from relevo.work.work_queues import WorkQueues

ERROR_LENGTH = 2_000


class RunState(NamedTuple):
    """What tells when an agent is due; 0 for never."""

    started_at: int
    leased_until: int
    ran_here: bool
    """Whether this process was the last to start it."""


class Runs:
    """The rows of `agent_runs`, as one process (`node`) uses them."""

    def __init__(self, work_queues: WorkQueues, node: str) -> None:
        self._work_queues = work_queues
        self._database = work_queues.database
        self.node = node

    async def enrol(self, names: list[str]) -> None:
        """Makes the rows that are missing."""
        async with self._database.connect() as connection:
            known = set((await connection.execute(select(agent_runs.c.agent))).scalars())
        for name in names:
            if name not in known:
                with contextlib.suppress(IntegrityError):  # another process was faster
                    async with self._database.begin() as connection:
                        await connection.execute(insert(agent_runs).values(agent=name, runs=0, failures=0))

    async def begin(self, name: str, *, lease_s: float, not_since: int | None = None) -> bool:
        """Takes the lease of an agent and notes the start. False while another holds it, or when it was started after
        `not_since`: somebody was faster with this beat."""
        now = self._work_queues.now_ms()
        row = agent_runs.c
        free: list[ColumnElement[bool]] = [
            row.agent == name,
            or_(row.lease_until.is_(None), row.lease_until <= now, row.lease_holder == self.node),
        ]
        if not_since is not None:
            free.append(or_(row.last_started_at.is_(None), row.last_started_at <= not_since))
        values: dict[str, Any] = {
            "lease_holder": self.node,
            "lease_until": now + int(lease_s * 1000),
            "last_started_at": now,
            "last_node": self.node,
        }
        async with self._database.begin() as connection:
            taken = await connection.execute(update(agent_runs).where(*free).values(values))
            return taken.rowcount == 1

    async def renew(self, name: str, *, lease_s: float) -> bool:
        """Keeps the lease; False when it is not ours any more."""
        row = agent_runs.c
        until = self._work_queues.now_ms() + int(lease_s * 1000)
        mine = update(agent_runs).where(row.agent == name, row.lease_holder == self.node).values(lease_until=until)
        async with self._database.begin() as connection:
            return (await connection.execute(mine)).rowcount == 1

    async def end(self, name: str, *, items: int, error: str | None, keep_lease: bool = False) -> None:
        """Notes how a run ended, and gives the lease up."""
        row = agent_runs.c
        values: dict[str, Any] = {
            "last_finished_at": self._work_queues.now_ms(),
            "last_items": items,
            "last_error": None if error is None else error[:ERROR_LENGTH],
            "runs": row.runs + 1,
            "failures": row.failures + (0 if error is None else 1),
        }
        if not keep_lease:
            values |= {"lease_holder": None, "lease_until": None}
        # Only while the lease is ours: who took it over meanwhile has a run of its own under way.
        ours = update(agent_runs).where(row.agent == name, row.lease_holder == self.node).values(values)
        async with self._database.begin() as connection:
            await connection.execute(ours)

    async def run_states(self) -> dict[str, RunState]:
        """How each agent stands, by whomever it was run."""
        row = agent_runs.c
        async with self._database.connect() as connection:
            found = await connection.execute(select(row.agent, row.last_started_at, row.lease_until, row.last_node))
            return {
                each.agent: RunState(each.last_started_at or 0, each.lease_until or 0, each.last_node == self.node)
                for each in found
            }

    async def read(self, name: str, every_s: float, about: str) -> AgentRun:
        now = self._work_queues.now_ms()
        async with self._database.connect() as connection:
            found = (await connection.execute(select(agent_runs).where(agent_runs.c.agent == name))).mappings().first()
        row: dict[str, Any] = {} if found is None else dict(found)
        started: int | None = row.get("last_started_at")
        finished: int | None = row.get("last_finished_at")
        took = None if started is None or finished is None else finished - started
        lease_until: int | None = row.get("lease_until")
        return AgentRun(
            agent=name,
            about=about,
            every_s=every_s,
            running=lease_until is not None and lease_until > now,
            last_started_at=started,
            last_finished_at=finished,
            last_duration_s=took / 1000 if took is not None and took >= 0 else None,
            last_items=row.get("last_items"),
            last_error=row.get("last_error"),
            last_node=row.get("last_node"),
            next_run_at=None if started is None else max(now, started + int(every_s * 1000)),
            runs=row.get("runs", 0),
            failures=row.get("failures", 0),
        )

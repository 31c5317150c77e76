"""The agents of an installation: who they are, how their last runs went, and their beat in this process.

async with Agents(work_queues) as running_agents:
    ...                                         # in every `serve` process; the beat falls to one of them
    await running_agents.run_now("message_archiver")
    for run in (await running_agents.list()).items: ...
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Sequence
from typing import Self

from relevo.agents.agent import Agent
from relevo.agents.agent_loop import AgentLoop
from relevo.agents.agent_runner import AgentRunner
from relevo.agents.agent_scheduler import AgentScheduler
from relevo.agents.audit_exporter import AuditExporter
from relevo.agents.audit_watch import AuditWatch
from relevo.agents.dead_letter_monitor import DeadLetterMonitor
from relevo.agents.erasure_runner import ErasureRunner
from relevo.agents.expiry_enforcer import ExpiryEnforcer
from relevo.agents.index_auditor import IndexAuditor
from relevo.agents.message_archiver import MessageArchiver
from relevo.agents.message_router import MessageRouter
from relevo.agents.outbox_relay import OutboxRelay
from relevo.agents.priority_aging_worker import PriorityAgingWorker
from relevo.agents.replay_runner import ReplayRunner
from relevo.agents.review_clock import ReviewClock
from relevo.agents.runs import AgentRun, Runs
from relevo.agents.search_indexer import SearchIndexer
from relevo.agents.stream_bridge import StreamBridge
from relevo.agents.visibility_timeout_enforcer import VisibilityTimeoutEnforcer
from relevo.agents.webhook_sender import WebhookSender
from relevo.contract.pages import Page
from relevo.errors import NotFound
from relevo.work.pagination import page_of
from relevo.work.work_queues import WorkQueues


def all_agents(work_queues: WorkQueues) -> list[Agent]:
    """Every agent there is."""
    return [
        VisibilityTimeoutEnforcer(work_queues),
        ExpiryEnforcer(work_queues),
        DeadLetterMonitor(work_queues),
        PriorityAgingWorker(work_queues),
        MessageArchiver(work_queues),
        OutboxRelay(work_queues),
        SearchIndexer(work_queues),
        AuditExporter(work_queues),
        AuditWatch(work_queues),
        IndexAuditor(work_queues),
        ReplayRunner(work_queues),
        WebhookSender(work_queues),
        ErasureRunner(work_queues),
        MessageRouter(work_queues),
        ReviewClock(work_queues),
        StreamBridge(work_queues),
    ]


class Agents:
    """Lists and runs the agents; between `start` and `stop` this process also takes its part in their beat."""

    def __init__(
        self, work_queues: WorkQueues, *, agents: Sequence[Agent] | None = None, node: str | None = None
    ) -> None:
        self.node = node or f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._agents = {agent.name: agent for agent in (all_agents(work_queues) if agents is None else agents)}
        self._runs = Runs(work_queues, self.node)
        self.runner = AgentRunner(self._runs)
        self.ran = self.runner.ran
        by_turns = {name: agent for name, agent in self._agents.items() if not isinstance(agent, OutboxRelay)}
        self.scheduler = AgentScheduler(work_queues, by_turns, self._runs, self.runner)
        self._webhook_deliveries = work_queues.webhook_deliveries
        self._deaf: Callable[[], None] = lambda: None
        self.relays = [
            AgentLoop(agent, self._runs) for agent in self._agents.values() if isinstance(agent, OutboxRelay)
        ]

    async def start(self) -> None:
        await self._runs.enrol(list(self._agents))
        self._deaf = self._webhook_deliveries.due.listen(lambda _: self._send_webhooks())
        self.scheduler.start()
        for relay in self.relays:
            relay.start()

    async def stop(self) -> None:
        """Ends after the batches under way; what they left is done elsewhere, or after the next start."""
        for relay in self.relays:
            await relay.stop()
        self._deaf()
        await self.runner.stop()
        await self.scheduler.stop()
        for agent in self._agents.values():
            if isinstance(agent, OutboxRelay | WebhookSender):
                await agent.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def list(self, *, limit: int = 100, cursor: str | None = None) -> Page[AgentRun]:
        """Every agent with its last run."""
        page = page_of("agents", list(self._agents.values()), limit=limit, cursor=cursor)
        return Page([await self._read(agent) for agent in page.items], page.next_cursor)

    async def get(self, name: str) -> AgentRun:
        return await self._read(self._agent(name))

    async def run_now(self, name: str) -> AgentRun:
        """Runs an agent at once, here, and returns how that went; when somebody is at it already, how that stands."""
        agent = self._agent(name)
        await self._runs.enrol([name])
        relay = next((each for each in self.relays if each.name == name and each.running), None)
        if relay is not None:
            relay.wake()  # it works all the time, here or where its lease is
        else:
            await self.runner.run(agent)
        return await self._read(agent)

    def _send_webhooks(self) -> None:
        for agent in self._agents.values():
            if isinstance(agent, WebhookSender):
                agent.wake()
                self.scheduler.run_soon(agent)

    def _agent(self, name: str) -> Agent:
        if name not in self._agents:
            raise NotFound(what="agent", name=name)
        return self._agents[name]

    async def _read(self, agent: Agent) -> AgentRun:
        return await self._runs.read(agent.name, agent.every_s, agent.about)

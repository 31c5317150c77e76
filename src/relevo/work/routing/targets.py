"""Where a route leads: a queue that takes messages, here or in a scope that lets ours in, or a stream queue that is open."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from relevo.engine.job.validation import checked_queue_name
from relevo.errors import BadRule, NotTrusted, QueueArchived, QueueDraining, StreamQueueClosed
from relevo.work.caller import Caller
from relevo.work.routing.rule import Route
from relevo.work.tenancy.queues import QueueRecord

if TYPE_CHECKING:
    from relevo.work.work_queues import WorkQueues


_OURS = ("work-agents-", "work-webhooks-", "work.")
"""Stream queues of the installation itself."""


class StreamTarget(NamedTuple):
    """A stream queue, and the name of the job there; None for the message's type."""

    queue: str
    job_name: str | None


class Targets:
    """Finds the targets of routes."""

    def __init__(self, work_queues: WorkQueues) -> None:
        self._work_queues = work_queues

    async def find(self, home: QueueRecord, route: Route, trusted_by: frozenset[int]) -> QueueRecord | StreamTarget:
        """Where `route` leads for a message of the scope of `home`; raises what stands in its way."""
        if route.stream_queue is not None:
            self.require_open_stream(home.tenant, route.stream_queue)
            return StreamTarget(route.stream_queue, route.job_name)
        assert route.queue is not None
        caller = Caller.system("router", home.tenant_id)
        target = await self._work_queues.queues.lookup(caller, route.scope or home.scope, route.queue)
        if target.scope_id != home.scope_id and target.scope_id not in trusted_by:
            raise NotTrusted(scope=target.scope, other=home.scope)
        if target.system:
            raise BadRule(rule="?", reason=f"{target.slug} is a queue of the scope itself: nothing is routed there")
        if "archived" in (target.state, target.scope_state):
            raise QueueArchived(queue=target.slug)
        if "draining" in (target.state, target.scope_state):
            raise QueueDraining(queue=target.slug)
        return target  # paused is fine: it waits there

    def require_open_stream(self, tenant: str, stream_queue: str) -> None:
        """Stream queues belong to no tenant: which of them a tenant may use, the one who runs the installation says."""
        checked_queue_name(stream_queue)
        ours = stream_queue.startswith(_OURS) or not stream_queue.isascii() or len(stream_queue) > 200
        for allowed in () if ours else self._work_queues.settings.stream_queues:
            owner, equals, pattern = allowed.rpartition("=")
            if (not equals or owner == tenant) and fnmatchcase(stream_queue, pattern):
                return
        raise StreamQueueClosed(queue=stream_queue)

"""Where a route leads: a queue that takes messages, here or in a scope that lets ours in, or a stream queue that is open."""

from __future__ import annotations

from relevo.errors import BadRule, NotTrusted, QueueArchived, QueueDraining
from relevo.work.caller import Caller
from relevo.work.queue_record import QueueRecord
from relevo.work.routing.rule import Route
from relevo.work.streams.stream_jobs import StreamTarget
from relevo.work.streams.stream_queues import StreamQueues
from relevo.work.tenancy.queues import Queues


class Targets:
    """Finds the targets of routes."""

    def __init__(self, queues: Queues, streams: StreamQueues) -> None:
        self._queues = queues
        self._streams = streams

    async def find(self, home: QueueRecord, route: Route, trusted_by: frozenset[int]) -> QueueRecord | StreamTarget:
        """Where `route` leads for a message of the scope of `home`; raises what stands in its way."""
        if route.stream_queue is not None:
            self._streams.require_open(home.tenant, route.stream_queue)
            return StreamTarget(route.stream_queue, route.job_name)
        assert route.queue is not None
        caller = Caller.system("router", home.tenant_id)
        target = await self._queues.lookup(caller, route.scope or home.scope, route.queue)
        if target.scope_id != home.scope_id and target.scope_id not in trusted_by:
            raise NotTrusted(scope=target.scope, other=home.scope)
        if target.system:
            raise BadRule(rule="?", reason=f"{target.slug} is a queue of the scope itself: nothing is routed there")
        if "archived" in (target.state, target.scope_state):
            raise QueueArchived(queue=target.slug)
        if "draining" in (target.state, target.scope_state):
            raise QueueDraining(queue=target.slug)
        return target  # paused is fine: it waits there

"""`/v1/agents`: the duties of the installation, how their last runs went, and run-now.

They work for all tenants, and their runs tell of all of them (how many items, which error, on which machine): they are seen and
run with the permission `operate`, not with a tenant's own.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import Paged
from relevo.api.responses import answer, page_answer
from relevo.api.serving import serving_of
from relevo.contract.agents import Agent
from relevo.work.caller import Caller
from relevo.work.store.transactions import SqlUnitOfWork

router = idempotency.router("/v1/agents", tag="agents")


@router.get("", summary="Every agent with its last run", **describe("list_agents", list[Agent], paged=True))
async def list_agents(request: Request, caller: Authenticated, paging: Paged) -> Response:
    caller.require_unlimited("operate")
    running_agents = serving_of(request).agents
    return page_answer(await running_agents.list(**paging), caller.request_id)


@router.post("/{agent}/run", summary="Run an agent now", **describe("run_agent", Agent))
async def run_agent(
    request: Request,
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    agent: Annotated[str, Path(max_length=40, description="name of the agent")],
) -> Response:
    caller.require_unlimited("operate")
    running_agents = serving_of(request).agents
    await running_agents.get(agent)
    await work_queues.transactions.run(lambda each: _note(each, caller, agent))
    return answer(await running_agents.run_now(agent), caller.request_id)


async def _note(transaction: SqlUnitOfWork, caller: Caller, agent: str) -> None:
    transaction.audit(caller, "agent.run", agent)

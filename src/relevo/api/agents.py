"""`/v1/agents`: the duties of the installation, how their last runs went, and run-now."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from relevo.agents.roster import Roster
from relevo.agents.runs import AgentRun
from relevo.api.answers import answer
from relevo.api.auth import Authenticated
from relevo.api.document import describe

router = APIRouter(prefix="/v1/agents", tags=["agents"])


@router.get("", summary="Every agent with its last run", **describe(list[AgentRun]))
async def list_agents(request: Request, caller: Authenticated) -> Response:
    caller.require_unlimited("view")
    roster: Roster = request.app.state.roster
    return answer(await roster.list(), caller.request_id)


@router.post("/{agent}/run", summary="Run an agent now", **describe(AgentRun))
async def run_agent(
    request: Request, caller: Authenticated, agent: Annotated[str, Path(max_length=40, description="name of the agent")]
) -> Response:
    caller.require_unlimited("manage")
    roster: Roster = request.app.state.roster
    return answer(await roster.run_now(agent), caller.request_id)

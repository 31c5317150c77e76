"""`relevo flow`: where a flow is, and its end before its time."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from relevo.cli.queues.arguments import QueueName
from relevo.cli.shell.output import Json, console, print_json, readable, say, table
from relevo.cli.shell.prompts import Yes, ask
from relevo.cli.shell.redis_server import Server, run, server_of
from relevo.engine.flows import CANCEL_FLOW, Flows, FlowState
from relevo.engine.validation import checked_queue_name
from relevo.errors import BadFlow
from relevo.wire.keys import QueueKeys

app = typer.Typer(help="Flows: show, cancel.", no_args_is_help=True)

FlowId = Annotated[str, typer.Argument(metavar="FLOW", help="The id of the run: `FlowRun.id`.", show_default=False)]

_STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow", "cancelled": "yellow", "queued": "cyan"}


@app.command()
def show(ctx: typer.Context, queue: QueueName, flow_id: FlowId, as_json: Json = False) -> None:
    """Show the jobs of a flow, what they came to, and what still waits."""
    state = run(_state(server_of(ctx), queue, flow_id))
    if as_json:
        jobs = {key: {"state": job.state, "value": job.value, "reason": job.reason} for key, job in state.jobs.items()}
        print_json({"queue": queue, "flow": flow_id, "state": state.state, "jobs": jobs})
        return
    made = table("job", "state", "result", title=f"flow {flow_id} of {queue}: {state.state}")
    for key, job in state.jobs.items():
        result = job.reason or ("" if job.value is None else json.dumps(readable(job.value), ensure_ascii=False))
        made.add_row(key, job.state, result, style=_STYLES.get(job.state, ""))
    console().print(made)


@app.command()
def cancel(ctx: typer.Context, queue: QueueName, flow_id: FlowId, yes: Yes = False, as_json: Json = False) -> None:
    """Cancel what has not ended: what waits never starts, what runs is cancelled."""
    running = run(_cancel(server_of(ctx), queue, flow_id, yes))
    if as_json:
        print_json({"queue": queue, "flow": flow_id, "cancelled": True, "running": running})
    else:
        say(f"flow {flow_id} is cancelled; {running} of its jobs were running or on their way")


async def _state(server: Server, queue: str, flow_id: str) -> FlowState:
    keys = QueueKeys(checked_queue_name(queue))
    async with server.link(keys) as link:
        return await Flows(link, keys).state(flow_id)


async def _cancel(server: Server, queue: str, flow_id: str, yes: bool) -> int:
    keys = QueueKeys(checked_queue_name(queue))
    async with server.link(keys, scripts=(CANCEL_FLOW,)) as link:
        flows = Flows(link, keys)
        state = await flows.state(flow_id)
        if state.state != "running":
            raise BadFlow(reason=f"the flow {flow_id!r} is {state.state}", remedy="There is nothing to cancel.")
        if not yes:
            left = sum(job.state in ("waiting", "queued") for job in state.jobs.values())
            ask(f"cancel the {left} jobs of flow {flow_id} that have not ended?")
        return await flows.cancel_flow(flow_id)

"""`relevo flow`: where a flow is, and its end before its time."""

from __future__ import annotations

from typing import Annotated

import typer

from relevo.broker.link import Link
from relevo.cli.queues.arguments import QueueName
from relevo.cli.shell.output import Json, one_line, show, table
from relevo.cli.shell.prompts import Yes, confirm
from relevo.cli.shell.redis_server import server_of
from relevo.engine.producing.flows import CANCEL_FLOW, Flows
from relevo.errors import BadFlow
from relevo.wire.keys import QueueKeys

app = typer.Typer(help="Flows: show, cancel.", no_args_is_help=True)

FlowId = Annotated[str, typer.Argument(metavar="FLOW", help="The id of the run: `FlowRun.id`.", show_default=False)]

_STYLES = {"done": "green", "failed": "bold red", "skipped": "yellow", "cancelled": "yellow", "queued": "cyan"}


@app.command("show")
def show_flow(ctx: typer.Context, queue: QueueName, flow_id: FlowId, as_json: Json = False) -> None:
    """Show the jobs of a flow, their results, and what still waits."""
    state = server_of(ctx).ask_link(queue, lambda link, keys: Flows(link, keys).state(flow_id))
    jobs = {key: {"state": job.state, "value": job.value, "reason": job.reason} for key, job in state.jobs.items()}
    made = table("job", "state", "result", title=f"flow {flow_id} of {queue}: {state.state}")
    for key, job in state.jobs.items():
        result = job.reason or ("" if job.value is None else one_line(job.value))
        made.add_row(key, job.state, result, style=_STYLES.get(job.state, ""))
    show({"queue": queue, "flow": flow_id, "state": state.state, "jobs": jobs}, as_json, made)


@app.command()
def cancel(ctx: typer.Context, queue: QueueName, flow_id: FlowId, yes: Yes = False, as_json: Json = False) -> None:
    """Cancel the jobs of a flow that have not ended: waiting ones never start, running ones are cancelled."""
    running = server_of(ctx).ask_link(
        queue, lambda link, keys: _cancel(link, keys, flow_id, yes), scripts=(CANCEL_FLOW,)
    )
    show(
        {"queue": queue, "flow": flow_id, "cancelled": True, "running": running},
        as_json,
        f"flow {flow_id} cancelled; {running} of its jobs were running or queued",
    )


async def _cancel(link: Link, keys: QueueKeys, flow_id: str, yes: bool) -> int:
    flows = Flows(link, keys)
    state = await flows.state(flow_id)
    if state.state != "running":
        raise BadFlow(reason=f"the flow {flow_id!r} is {state.state}", remedy="There is nothing to cancel.")
    left = sum(job.state in ("waiting", "queued") for job in state.jobs.values())
    confirm(f"cancel the {left} jobs of flow {flow_id} that have not ended?", yes=yes)
    return await flows.cancel_flow(flow_id)

"""`relevo lanes`: who waits for a turn, and what each lane may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from relevo.cli.queues.arguments import QueueName
from relevo.cli.shell.durations import span_ms
from relevo.cli.shell.output import Json, count, show, span, table
from relevo.cli.shell.redis_server import server_of
from relevo.engine.lanes.lanes import LaneLimit, LaneState
from relevo.errors import BadArgument
from relevo.wire.notes import ALL_LANES

if TYPE_CHECKING:
    from relevo.engine.queue import Queue

app = typer.Typer(help="Lanes: list, limit, unlimit.", no_args_is_help=True)

LaneName = Annotated[
    str, typer.Argument(metavar="LANE", help="The lane; '*' for all without a limit of their own.", show_default=False)
]


@app.command("list")
def list_(ctx: typer.Context, queue: QueueName, as_json: Json = False) -> None:
    """Show lanes that have jobs or a limit, the longest first."""
    states = server_of(ctx).ask(queue, _states)
    made = table("lane", "waiting", "running", "limit", title=f"lanes of {queue}", numbers=("waiting", "running"))
    for state in states:
        numbers = ("-", "-") if state.lane == ALL_LANES else (count(state.waiting), count(state.flying))
        made.add_row(state.lane, *numbers, in_words(state.limit))
    show([_as_dict(state) for state in states], as_json, made, nothing=f"no lanes in {queue}")


@app.command()
def limit(
    ctx: typer.Context,
    queue: QueueName,
    lane: LaneName,
    concurrency: Annotated[int, typer.Option(help="Jobs at once; 1 is a strict sequence, 0 any number.", min=0)] = 0,
    rate: Annotated[int, typer.Option(help="Jobs in each --per; 0 any number.", min=0)] = 0,
    per: Annotated[str, typer.Option(help='The time of --rate: "1s", "1h".')] = "1s",
    burst: Annotated[int, typer.Option(help="Jobs at once after a quiet time; 0: never more than --rate.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Limit a lane, or with '*' every lane without a limit of its own. All workers follow it at once."""
    chosen = LaneLimit(concurrency, rate, span_ms("--per", per), burst)
    server_of(ctx).ask(queue, lambda opened: opened.lanes.limit(lane, chosen))
    show({"queue": queue, "lane": lane, "limit": chosen}, as_json, f"lane {lane} of {queue}: {in_words(chosen)}")


@app.command()
def unlimit(ctx: typer.Context, queue: QueueName, lane: LaneName, as_json: Json = False) -> None:
    """Remove the limit of a lane."""
    if not server_of(ctx).ask(queue, lambda opened: opened.lanes.unlimit(lane)):
        remedy = f"`relevo lanes list {queue}` shows which have one."
        raise BadArgument(argument="LANE", value=lane, reason="it has no limit of its own", remedy=remedy)
    ended = f"lane {lane} of {queue}: limit removed"
    show({"queue": queue, "lane": lane, "limit": None}, as_json, ended)


async def _states(queue: Queue) -> list[LaneState]:
    lanes = queue.lanes
    limits = await lanes.limits()
    names = {*limits, *await lanes.waiting()} - {ALL_LANES}
    states = [await lanes.state(name) for name in names]
    states.sort(key=lambda state: (-state.waiting, state.lane))
    return [*([LaneState(ALL_LANES, 0, 0, limits[ALL_LANES])] if ALL_LANES in limits else []), *states]


def in_words(limit: LaneLimit | None) -> str:
    """A limit as people say it.

    >>> in_words(LaneLimit(concurrency=1, rate=10, per_ms=60_000)), in_words(None)
    ('1 at once, 10 in 1 min', '-')
    >>> in_words(LaneLimit(rate=10, per_ms=60_000, burst=50))
    '10 in 1 min (burst 50)'
    """
    if limit is None:
        return "-"
    parts = [f"{limit.concurrency} at once"] if limit.concurrency else []
    if limit.rate:
        parts.append(f"{limit.rate} in {span(limit.per_ms)}" + (f" (burst {limit.burst})" if limit.burst else ""))
    return ", ".join(parts)


def _as_dict(state: LaneState) -> dict[str, Any]:
    return {"lane": state.lane, "waiting": state.waiting, "running": state.flying, "limit": state.limit}

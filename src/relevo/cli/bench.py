"""`relevo bench`: how fast is this server, and how much of that does relevo use?"""

from __future__ import annotations

import asyncio

import typer
from rich.table import Table

from relevo.bench.trial import STEPS, Measured, Trial
from relevo.cli.shell.output import Json, count, show, table
from relevo.cli.shell.progress import bar
from relevo.cli.shell.redis_server import Server, server_of


def bench(ctx: typer.Context, as_json: Json = False) -> None:
    """Measure this server with and without relevo: adds, drains, latency. Ends within a minute, uses a queue of its own."""
    server = server_of(ctx)
    measured = asyncio.run(_measure(server))
    value = {
        "redis_url": str(server.address),
        "server": measured.server,
        "jobs_per_s": measured.rates,
        "raw_per_s": measured.ceilings,
        "shares": measured.shares,
        "latency_ms": measured.latency_ms,
    }
    show(
        value,
        as_json,
        _table(server, measured),
        "latency at 200 jobs/s: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in measured.latency_ms.items()),
        "Shares tell more than rates: both sides of one line meet the same machine, network and server settings.",
    )


async def _measure(server: Server) -> Measured:
    with bar("", STEPS) as shown:
        return await Trial(server.url, patience=server.patience).run(lambda name: shown.update(more=1, label=name))


def _table(server: Server, measured: Measured) -> Table:
    made = table(
        "",
        "relevo",
        "the server itself",
        "share",
        "bounded by",
        numbers=("relevo", "the server itself", "share"),
        title=f"{measured.server} at {server.address}, a second",
    )
    for name, share in measured.shares.items():
        bound = measured.BOUNDS[name]
        made.add_row(
            name, count(round(measured.rates[name])), count(round(measured.ceilings[bound])), f"{share:.0%}", bound
        )
    return made

"""`relevo bench`: how fast is this server, and how much of that does relevo use?"""

from __future__ import annotations

import typer
from rich.progress import BarColumn, Progress, TextColumn

from relevo.bench.trial import STEPS, Measured, Trial
from relevo.cli.shell.output import Json, console, count, print_json, say, table
from relevo.cli.shell.redis_server import Server, run, server_of


def bench(ctx: typer.Context, as_json: Json = False) -> None:
    """Measure this server with and without relevo: adds, drains, latency. Ends within a minute, uses a queue of its own."""
    server = server_of(ctx)
    measured = run(_measure(server))
    if as_json:
        print_json(
            {
                "redis_url": str(server.address),
                "server": measured.server,
                "jobs_per_s": measured.rates,
                "raw_per_s": measured.ceilings,
                "shares": measured.shares,
                "latency_ms": measured.latency_ms,
            }
        )
    else:
        _show(server, measured)


async def _measure(server: Server) -> Measured:
    # On stderr, so that --json stays clean.
    with Progress(
        TextColumn("{task.description}"), BarColumn(), console=console(stderr=True), transient=True
    ) as progress:
        bar = progress.add_task("", total=STEPS)

        def step(name: str) -> None:
            progress.update(bar, description=name, advance=1)

        return await Trial(server.url, patience=server.patience).run(step)


def _show(server: Server, measured: Measured) -> None:
    made = table(
        "", "relevo", "the server itself", "share", "bounded by", numbers=("relevo", "the server itself", "share"),
        title=f"{measured.server} at {server.address}, a second",
    )  # fmt: skip
    for name, share in measured.shares.items():
        bound = measured.BOUNDS[name]
        made.add_row(
            name, count(round(measured.rates[name])), count(round(measured.ceilings[bound])), f"{share:.0%}", bound
        )
    console().print(made)
    say("latency at 200 jobs/s: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in measured.latency_ms.items()))
    say("Shares tell more than rates: both sides of one line meet the same machine, network and server settings.")

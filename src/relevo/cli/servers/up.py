"""`relevo up`: the whole platform in the foreground, until Ctrl-C. A list of services; the server is the first."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Protocol

import typer

from relevo import version
from relevo.broker.embedded import Fsync
from relevo.cli.servers.embedded_redis import EmbeddedRedis
from relevo.cli.servers.work_queues import ServedWorkQueues
from relevo.cli.servers.work_service import DEFAULT_PORT as WORK_PORT
from relevo.cli.shell.output import console, say, table
from relevo.cli.shell.run_file import DATA, data_folder, find_running, running_in
from relevo.errors import PlatformRunning, ServiceEnded

DEFAULT_PORT = 6390

_LOOK_EVERY_S = 1.0


class Service(Protocol):
    """A part of the platform: started in the order of the list, stopped in the reverse order."""

    name: str

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def where(self) -> list[tuple[str, str]]:
        """What to print about it, as label and place."""
        ...

    def trouble(self) -> str | None:
        """Why it does not work any more; None while it does."""
        ...


def up(
    data: Annotated[
        Path,
        typer.Option(envvar="RELEVO_DATA", help="The folder that keeps the jobs; created if it does not exist."),
    ] = Path(DATA),
    port: Annotated[
        int, typer.Option(help="The server's port; a free one is chosen if it is taken.", min=1, max=65535)
    ] = (DEFAULT_PORT),
    work_port: Annotated[
        int, typer.Option(help="The port of work queues; a free one is chosen if it is taken.", min=1, max=65535)
    ] = WORK_PORT,
    fsync: Annotated[Fsync, typer.Option(help="When the server writes to disk: always, everysec or no.")] = "everysec",
) -> None:
    """Run the platform on the embedded server. Ctrl-C stops it; the data stays for the next time."""
    other = find_running(data)
    if other is not None:
        raise PlatformRunning(folder=str(data), pid=other.pid, url=other.redis_url)
    server = EmbeddedRedis(data, port, fsync)
    services: list[Service] = [server]
    if _has_server_extra():
        services.append(ServedWorkQueues(data, server, work_port))
    asyncio.run(run_services(services, server, data))


def _has_server_extra() -> bool:
    """Work queues need what `pip install relevo[server]` brings; without it the rest is served all the same."""
    return all(importlib.util.find_spec(name) for name in ("alembic", "fastapi", "httptools", "sqlalchemy", "uvicorn"))


async def run_services(services: Sequence[Service], server: EmbeddedRedis, folder: Path) -> None:
    """Starts all, says where they are (also in the run file, for other commands), and stops all after a signal. One that fails
    ends the others, and says so."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    started: list[Service] = []
    announced = False
    try:
        for service in services:
            started.append(service)
            await service.start()
        url = server.server.url
        with running_in(folder, url, next((each.url for each in services if isinstance(each, ServedWorkQueues)), None)):
            _announce(services, folder, url)
            announced = True
            await _until(stopped, services)
    finally:
        for service in reversed(started):
            await service.stop()
        if announced:
            say("stopped; the data is kept")


async def _until(stopped: asyncio.Event, services: Sequence[Service]) -> None:
    while not stopped.is_set():
        for service in services:
            trouble = await asyncio.to_thread(service.trouble)
            if trouble is not None and not stopped.is_set():
                raise ServiceEnded(service=service.name, reason=trouble)
        try:
            async with asyncio.timeout(_LOOK_EVERY_S):
                await stopped.wait()
        except TimeoutError:
            continue


def _announce(services: Sequence[Service], folder: Path, url: str) -> None:
    made = table("", "where", title=f"relevo {version()} is up")
    for service in services:
        for label, place in service.where():
            made.add_row(label, place)
    console().print(made)
    if folder.resolve() == data_folder().resolve():
        first = "In another terminal, in this folder:\n"
    else:
        first = f"In another terminal:\n\n  export RELEVO_REDIS_URL={url}"
    say(
        f"""
{first}
  relevo add emails welcome '{{"to": "ada@example.org"}}'    # a first job
  relevo watch emails                                      # see it wait

A worker, app.py:

  from relevo import Tasks

  tasks = Tasks()

  @tasks.task()
  async def welcome(to: str) -> None:
      print("Welcome,", to)

and in that folder:

  relevo worker app:tasks --queue emails"""
    )
    served = [service for service in services if isinstance(service, ServedWorkQueues)]
    for work_queues in served:
        say(work_queues.how_to())
    if not served:
        say("\nWork queues and the console are not served: run `pip install 'relevo[server]'` to have them.")
    say("\nCtrl-C stops everything; the data folder keeps the jobs and messages.")

"""Tasks for processes: another process imports this module to find them."""

import os
from pathlib import Path

from relevo import Depends, Tasks

tasks: Tasks[None] = Tasks(processes=1)


@tasks.task(run_on="process")
def square(number: int) -> list[int]:
    return [os.getpid(), number * number]


@tasks.task(run_on="process")
def fail(reason: str) -> None:
    raise ValueError(reason)


@tasks.task(run_on="process", attempts=2, backoff=1)
def die_once(folder: str) -> str:
    """Takes its process with it the first time."""
    try:
        os.mkdir(os.path.join(folder, "died"))  # noqa: PTH102, PTH118
    except FileExistsError:
        return "survived"
    os._exit(1)


@tasks.task(run_on="process", timeout_s=0.1, attempts=1)
def hang(pipe: str) -> None:
    """Ends when something is written into the pipe."""
    Path(pipe).read_bytes()


@tasks.task(run_on="process")
def unpicklable() -> object:
    return lambda: 7


def factor() -> int:
    return 7


@tasks.task(run_on="process")
def times(number: int, by: int = Depends(factor)) -> int:
    return number * by

"""The page docs/options.md, made from where options are declared. `make reference` writes it."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from relevo.engine.consuming.worker_options import WorkerOptions
from relevo.engine.producing.queue_options import QueueOptions
from relevo.options import Option, options_of
from relevo.wire.retry import RETRIES, RetryDefaults
from tests.support.page import ROOT

PAGE = ROOT / "docs" / "options.md"

_HEAD = """# Options of queues and workers

Every option with its default. [The reference](reference.md) has all public names.

`Queue`, `SyncQueue` and `Worker` take:

| option | default | |
|---|---|---|
| `redis_url` | `redis://127.0.0.1:6379` | Where the server is; see [connections](how-to/connections.md). |
| `tls` | `False` | TLS for a `redis://` address. |
| `credential_provider` | none | An async function that gives user and password anew at each connect. |

## `Queue(name, …)`
"""
_WORKER = """
## `Worker(queue_name, handler, …)`

Each is a flag of `relevo worker` too, as `--claim-min-idle-ms` or `--no-events-enabled`. [Schedules](how-to/schedules.md),
[limits](how-to/limits-and-lanes.md) and [workers in production](how-to/workers-in-production.md) say when to change them.
"""
_RETRY = "\n`RetryDefaults(…)`; as flags `--retry-initial-ms` and so on:\n"
_TABLE = "\n| option | default | |\n|---|---|---|"


def page() -> str:
    return "\n".join([_HEAD.rstrip(), _TABLE, *_rows(options_of(QueueOptions)), _WORKER.rstrip(), *_topics()]) + "\n"


def _topics() -> Iterator[str]:
    for topic, options in groupby(options_of(WorkerOptions), lambda each: each.about.topic):
        yield f"\n### {topic}\n{_TABLE}"
        yield from _rows(options)
        if topic == RETRIES:
            yield f"{_RETRY}{_TABLE}"
            yield from _rows(options_of(RetryDefaults))


def _rows(options: Iterable[Option]) -> Iterator[str]:
    for each in options:
        yield f"| `{each.name}` | {_shown(each.default)} | {each.about.text} |"


def _shown(default: object) -> str:
    if default is None:
        return "none"
    if isinstance(default, int) and not isinstance(default, bool):
        return f"{default:,}".replace(",", " ")
    return f"`{default}`" if isinstance(default, bool | float | str) else f"`{type(default).__name__}()`"


if __name__ == "__main__":
    PAGE.write_text(page())

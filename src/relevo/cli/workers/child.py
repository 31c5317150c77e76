"""A supervised worker process: `python -m relevo.cli.workers.child` reads its spec from stdin, and leaves in order when stdin
ends, because then its supervisor is gone."""

from __future__ import annotations

import sys

from relevo import logs
from relevo.cli.shell.failures import complain_of
from relevo.cli.workers.worker_process import run_worker_process
from relevo.cli.workers.worker_spec import WorkerSpec
from relevo.errors import RelevoError


def main() -> int:
    spec = WorkerSpec.read(sys.stdin.readline())
    logs.configure(json=spec.json_logs, level=spec.log_level)
    try:
        return run_worker_process(spec, supervised=True)
    except RelevoError as error:
        return complain_of(error)


if __name__ == "__main__":
    sys.exit(main())

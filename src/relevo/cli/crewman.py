"""A process of a crew: `python -m relevo.cli.crewman` reads its orders from stdin, and leaves in order when stdin ends,
because then its crew is gone."""

from __future__ import annotations

import sys

from relevo import logs
from relevo.cli.commands import WRONG_CALL
from relevo.cli.screen import complain
from relevo.cli.shift import Orders, run_shift
from relevo.errors import BadTarget, RelevoError


def main() -> int:
    orders = Orders.read(sys.stdin.readline())
    logs.configure(json=orders.json_logs, level=orders.log_level)
    try:
        return run_shift(orders, of_a_crew=True)
    except RelevoError as error:
        complain(str(error))
        return WRONG_CALL if isinstance(error, BadTarget) else 1


if __name__ == "__main__":
    sys.exit(main())

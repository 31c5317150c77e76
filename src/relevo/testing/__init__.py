"""For tests of programs that use relevo: run what is waiting, look at what was enqueued, turn the clock.

Fixtures are in `relevo.testing.plugin`: write `pytest_plugins = ["relevo.testing.plugin"]` in the conftest.py at the root of
your tests. How to use it all is in docs/how-to/test-your-jobs.md.
"""

from relevo.testing.clock import Clock
from relevo.testing.drain import Ran, drain
from relevo.testing.enqueued import Enqueued, assert_enqueued, assert_not_enqueued, enqueued

__all__ = ["Clock", "Enqueued", "Ran", "assert_enqueued", "assert_not_enqueued", "drain", "enqueued"]

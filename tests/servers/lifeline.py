"""What ends a server of a test run that dies without a word."""

import signal
import subprocess
from pathlib import Path

from tests.harness.leftovers import unmarked

_SCRIPT = """
read _
kill -"$1" "$2"
tries=0
while kill -0 "$2" 2>/dev/null && [ $tries -lt 150 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
rm -rf "$3"
"""


class Lifeline:
    """A shell that waits for the end of a pipe we hold: then it ends the process and removes its folder. `cut` takes it off."""

    def __init__(self, pid: int, folder: Path, number: signal.Signals = signal.SIGTERM) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "lifeline", str(number.value), str(pid), str(folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=unmarked(),
            start_new_session=True,
        )

    def cut(self) -> None:
        self._shell.kill()
        self._shell.communicate()

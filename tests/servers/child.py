"""A program that a test starts and waits for. One that dies while it is waited for fails the test at once, with what it said.

Whatever waits for another process waits here: for a line, for something to be so, or for its end. Limits are those of a
quiet machine and follow the pace of this one (`tests/pace.py`).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, NoReturn, Self

from tests.harness.leftovers import marked
from tests.pace import limit

PATIENCE = 40.0
_LOOKS = 0.01
_SHOWN = 4000
_LAST_WORDS = 5.0


class ChildFailed(Exception):
    """A program died or hung while a test waited for it; the message has its exit code and the end of what it said."""


class Done(NamedTuple):
    """How a program ended, and all it said."""

    code: int
    out: str
    err: str


class Child:
    """A running program. Lines are read as they come, so that nobody stands still because a pipe is full.

    `logs` are files whose ends are shown as well when it fails. With `group` it leads a process group, which `kill` ends whole.
    With `merged` stderr goes into stdout, so that lines of both come in their true order.
    """

    def __init__(
        self,
        *command: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        logs: Sequence[Path] = (),
        group: bool = False,
        merged: bool = False,
    ) -> None:
        self._command = [str(part) for part in command]
        self._logs = tuple(logs)
        self._group = group
        self._lines: list[str] = []
        self._of_stdout: list[str] = []
        self._of_stderr: list[str] = []
        self._read = 0
        self._read_of_stdout = 0
        self.process = subprocess.Popen(
            self._command,
            cwd=cwd,
            env=None if env is None else marked(env),
            start_new_session=group,
            text=True,
            errors="replace",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        )
        pipes = ((self.process.stdout, self._of_stdout), (self.process.stderr, self._of_stderr))
        self._readers = [
            threading.Thread(target=self._read_pipe, args=(pipe, into), daemon=True)
            for pipe, into in pipes
            if pipe is not None
        ]
        for reader in self._readers:
            reader.start()

    @classmethod
    def run(
        cls,
        *command: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        logs: Sequence[Path] = (),
        stdin: str = "",
        timeout: float = PATIENCE,
    ) -> Done:
        """Starts a program and waits for its end, whatever its exit code is. One that hangs is killed."""
        with cls(*command, cwd=cwd, env=env, logs=logs) as child:
            child.tell(stdin)
            child.close_stdin()
            code = child.ended(timeout=timeout)
            return Done(code, child.out, child.err)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def out(self) -> str:
        """All of its stdout so far."""
        return "".join(self._of_stdout)

    @property
    def err(self) -> str:
        """All of its stderr so far."""
        return "".join(self._of_stderr)

    @property
    def said(self) -> list[str]:
        """The lines of both, in the order in which they came."""
        return list(self._lines)

    # --- what can be waited for ---------------------------------------------------------------------------------------

    def line(self, *, timeout: float = PATIENCE) -> str:
        """The next line of its stdout, without its end."""

        def there() -> bool:
            return len(self._of_stdout) > self._read_of_stdout

        self.wait_until(there, "a line on its stdout", timeout=timeout)
        self._read_of_stdout += 1
        return self._of_stdout[self._read_of_stdout - 1].removesuffix("\n")

    def wait_for(self, pattern: str, *, timeout: float = PATIENCE) -> re.Match[str]:
        """The next line, of stdout or stderr, in which `pattern` is found."""
        found: list[re.Match[str]] = []

        def there() -> bool:
            while not found and self._read < len(self._lines):
                self._read += 1
                if match := re.search(pattern, self._lines[self._read - 1]):
                    found.append(match)
            return bool(found)

        self.wait_until(there, f"a line with {pattern!r}", timeout=timeout)
        return found[0]

    def wait_until(self, true: Callable[[], bool], what: str, *, timeout: float = PATIENCE) -> None:
        """Asks again and again while the program lives. What it did before it ended counts."""
        ends = time.monotonic() + limit(timeout)
        while True:
            dead = self._has_ended()
            if true():
                return
            self._must_go_on(what, dead, ends)
            time.sleep(_LOOKS)

    async def until(self, true: Callable[[], bool | Awaitable[bool]], what: str, *, timeout: float = PATIENCE) -> None:
        """As `wait_until`, for tests that run in a loop."""
        ends = time.monotonic() + limit(timeout)
        while True:
            dead = self._has_ended()
            answer = true()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            self._must_go_on(what, dead, ends)
            await asyncio.sleep(_LOOKS)

    def must_live(self, what: str) -> None:
        """For who waits for several at once: fails when this one has ended."""
        if self._has_ended():
            self._must_go_on(what, True, 0)

    def ended(self, *, timeout: float = PATIENCE) -> int:
        """Its exit code, once it has ended by itself and all it said was read."""
        try:
            self.process.wait(limit(timeout))
        except subprocess.TimeoutExpired:
            self._fail("still runs, and reached its limit without an end")
        self._hear_out()
        self.close_stdin()
        return self.process.returncode

    def end(self, number: signal.Signals = signal.SIGTERM, *, timeout: float = PATIENCE) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        return self.ended(timeout=timeout)

    # --- what can be done to it ---------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        """Writes to its stdin."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; whoever waits for it is told
            self.process.stdin.write(text)
            self.process.stdin.flush()

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # it has ended, and what was not sent yet is nobody's
            self.process.stdin.close()

    def kill(self) -> None:
        """SIGKILL, to its whole group where it leads one; returns once all of them are dead."""
        if self._group:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        if self._group:
            self._wait_for_group()
        self._hear_out()
        self.close_stdin()

    def close(self) -> None:
        """Kills it unless it has ended."""
        if self.alive or self._group:
            self.kill()
        self._hear_out()
        self.close_stdin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- behind it ----------------------------------------------------------------------------------------------------

    def _read_pipe(self, pipe: IO[str], into: list[str]) -> None:
        with pipe:
            for line in pipe:
                into.append(line)
                self._lines.append(line)

    def _has_ended(self) -> bool:
        """Asked before the condition is: all that a dead program said and did is there by then."""
        if self.alive:
            return False
        self._hear_out()
        return True

    def _must_go_on(self, what: str, dead: bool, ends: float) -> None:
        if dead:
            self._fail(f"ended with {self.process.returncode} while the test waited for {what}")
        if time.monotonic() > ends:
            self._fail(f"still runs, and reached its limit without {what}")

    def _hear_out(self) -> None:
        """To the end of the pipes; not for long, since a child of its own may hold them open."""
        for reader in self._readers:
            reader.join(_LAST_WORDS)

    def _wait_for_group(self) -> None:
        """Until the group's last process is dead: a kill only asks, and whoever kills wants its ports and files back."""
        ends = time.monotonic() + limit(PATIENCE)
        while living := _living_members(self.pid):
            if time.monotonic() > ends:
                self._fail(f"was killed, and its processes {living} still run")
            time.sleep(_LOOKS)

    def _fail(self, what: str) -> NoReturn:
        told = [("stdout", self.out), ("stderr", self.err)]
        told += [(log.name, log.read_text(errors="replace")) for log in self._logs if log.exists()]
        ends = "\n".join(f"--- {name}:\n{text[-_SHOWN:] or '(nothing)'}" for name, text in told)
        raise ChildFailed(f"`{shlex.join(self._command)[:200]}` {what}.\n{ends}")


def _living_members(group: int) -> list[int]:
    """The processes of a group that run still. One that is dead and was not collected yet (Z) does not count."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended while we looked
            state, _, of_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(of_group) == group and state not in "ZX":
                found.append(int(stat.parent.name))
    return found

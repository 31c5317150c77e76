"""One answer to XRANGE: its bytes as they came, and its entries, read by hiredis only when somebody needs them one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import hiredis
import numpy as np

from relevo.errors import ServerRefused
from relevo.pipeline.connector.connection import Argument, Connection, Directory, ReplyError, pack
from relevo.pipeline.connector.layout import Layout, laid_out
from relevo.pipeline.connector.offsets import EntryId

_LINE = 64  # an id has 41 letters at most

Entry = list[Any]
"""`[id, [field, value, ...]]`, as Redis sends it."""


class Page:
    """A page of entries. It lies in the connection's buffer: done with before the next page is read.

    >>> page = Page(memoryview(b"*1\\r\\n*2\\r\\n$3\\r\\n5-0\\r\\n*2\\r\\n$1\\r\\ne\\r\\n$6\\r\\nactive\\r\\n"))
    >>> page.entries
    [[b'5-0', [b'e', b'active']]]
    >>> page.rows, str(page.newest)
    (1, '5-0')
    """

    def __init__(
        self, data: memoryview | bytes, *, entries: list[Entry] | None = None, error: ReplyError | None = None
    ) -> None:
        self._data = data
        self._entries = entries
        if data[:1] == b"-" and error is None:
            error = self._parsed()
        self.error = error
        """The server's refusal, when it is no page at all."""
        self.skipped = 0
        """Entries at the beginning that are no part of what was asked for."""

    @cached_property
    def layout(self) -> Layout | None:
        """Where its texts lie; None when only hiredis can tell."""
        return None if self._entries is not None else laid_out(np.frombuffer(self._data, np.uint8))

    @property
    def entries(self) -> list[Entry]:
        """All of them, also those that are skipped."""
        if self._entries is None:
            self._entries = cast("list[Entry]", self._parsed() or [])
        return self._entries

    @cached_property
    def rows(self) -> int:
        """How many entries it has, also those that are skipped."""
        if self._entries is None and self._data[:1] == b"*":
            return int(bytes(self._data[1 : self._line(0)]))
        return len(self.entries)

    @property
    def oldest(self) -> EntryId:
        if self._entries is not None:
            return self.id(0)
        before = self._line(self._line(self._line(0) + 2) + 2) + 2  # the number of entries, `*2`, the length of the id
        return EntryId.parse(bytes(self._data[before : self._line(before)]))

    @property
    def body(self) -> bytes | None:
        """The entries as they came, without their number in front; None when they were read one by one."""
        return None if self._entries is not None else bytes(self._data[self._line(0) + 2 :])

    def kept(self) -> Page:
        """The same page, in memory of its own: it may be looked at after the next one was read."""
        copy = Page(self._data, entries=self._entries) if self._entries is not None else Page(bytes(self._data))
        copy.skipped = self.skipped
        return copy

    def _line(self, start: int) -> int:
        """Where the line ends that begins here; all that this is asked for are short."""
        return start + bytes(self._data[start : start + _LINE]).index(b"\r\n")

    @property
    def newest(self) -> EntryId:
        return self.id(-1)

    def id(self, place: int) -> EntryId:
        layout = self.layout
        text = self.entries[place][0] if layout is None else layout.text(int(layout.ids[place]))
        return EntryId.parse(text)

    def _parsed(self) -> Any:
        reader: Any = hiredis.Reader(replyError=ReplyError)
        reader.feed(bytes(self._data))
        return reader.gets()


def joined(pages: Sequence[bytes], rows: int) -> Page:
    """One page of the bodies of several."""
    return Page(b"".join((b"*%d\r\n" % rows, *pages)))


def answered(connection: Connection, *, plain: bool = True) -> Page:
    """The answer to a question that was asked with `ask_plain`, or with `send` when it is not wanted plain."""
    data = connection.read_plain() if plain else None
    if data is not None:
        return Page(data)
    reply = connection.read()
    return Page(b"-", error=reply) if isinstance(reply, ReplyError) else Page(b"", entries=reply)


def asked(directory: Directory, key: bytes, *arguments: Argument) -> Page:
    """One page of the stream `key`: the question is sent again after a loss, and a refusal is raised."""

    def attempt() -> Page:
        connection = directory.connection(key)
        connection.ask_plain(pack(arguments))
        page = answered(connection)
        directory.refuse_moved([page.error], connection)
        return page

    page = directory.patiently(attempt)
    if page.error is not None:
        raise ServerRefused(command=str(arguments[0]), reason=str(page.error))
    return page

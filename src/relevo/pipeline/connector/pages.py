"""Reads one range of ids, page by page: the next page is asked for before the last one is converted.

For events every page begins with the last entry of the one before, and the first page with an entry that was there when the
range was planned. When that entry is gone, the stream was trimmed under our hands, and entries nobody has read may be gone
with it: that is told, never passed over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from relevo.errors import ConnectionLost, DataLost, ServerRefused
from relevo.pipeline.connector.connection import Connection, Directory, pack
from relevo.pipeline.connector.offsets import EntryId
from relevo.pipeline.connector.page import Page, answered
from relevo.pipeline.connector.ranges import IdRange
from relevo.pipeline.connector.streams import encoded

log = logging.getLogger("relevo.spark")


class Pages:
    """The pages of one range; iterate once."""

    def __init__(
        self,
        directory: Directory,
        part: IdRange,
        *,
        rows: int,
        append_only: bool,
        fail_on_data_loss: bool,
        plain: bool = False,
    ) -> None:
        self._directory = directory
        self._part = part
        self._key = encoded(part.stream)
        self._rows = rows
        self._append_only = append_only
        self._fail = fail_on_data_loss
        self._plain = plain
        """Whether pages are wanted as bytes, or rather as entries at once."""
        witness = part.witness if append_only else None
        self._at = part.start if witness is None else witness
        """The last entry handed out, or where the range begins."""
        self._overlaps = witness is not None
        self._ours = witness is not None and witness > part.start
        """Whether the witness is the first entry of the range, and not the last one before it."""
        self._connection: Connection | None = None
        """Where the question under way was sent."""
        self.gaps = 0
        """How often entries were gone before they were read (with failOnDataLoss=false)."""

    def __iter__(self) -> Iterator[Page]:
        self._ask()
        while True:
            page, overlapped = self._read(), self._overlaps
            more = page.rows == self._rows
            if page.rows:
                newest = page.newest
                if overlapped:
                    self._skip_witness(page)
                self._at, self._overlaps = newest, self._append_only
            elif overlapped:
                self._tell_loss(None)
            if more:
                self._ask()
            if page.rows > page.skipped:
                yield page
            if not more:
                return

    def _ask(self) -> None:
        """Sends the next question; when that fails, reading the answer will send it again."""
        try:
            self._connection = self._connection or self._directory.connection(self._key)
            self._put(self._connection)
        except ConnectionLost:
            self._connection = None

    def _read(self) -> Page:
        """The answer. After a lost connection the question is asked again: reading changes nothing."""

        def attempt() -> Page:
            if self._connection is None:
                self._connection = self._directory.connection(self._key)
                self._put(self._connection)
            try:
                page = answered(self._connection, plain=self._plain)
                self._directory.refuse_moved([page.error], self._connection)
            except ConnectionLost:
                self._connection = None
                raise
            if page.error is not None:
                raise ServerRefused(command="XRANGE", reason=str(page.error))
            return page

        return self._directory.patiently(attempt)

    def _put(self, connection: Connection) -> None:
        (connection.ask_plain if self._plain else connection.send)(self._question())

    def _question(self) -> bytes:
        start = str(self._at) if self._overlaps else f"({self._at}"
        return pack(("XRANGE", self._key, start, str(self._part.end), "COUNT", self._rows))

    def _skip_witness(self, page: Page) -> None:
        first = page.oldest
        if first == self._at:
            page.skipped = 0 if self._ours else 1
        else:
            self._tell_loss(first)
        self._ours = False

    def _tell_loss(self, oldest_read: EntryId | None) -> None:
        """The witness is gone. Streams are trimmed from their oldest end: something older left means nothing was lost."""
        with_oldest = Directory(self._directory.address, timeout_s=30)  # ours has a question under way
        try:
            found = with_oldest.ask(self._key, "XRANGE", self._key, "-", "+", "COUNT", 1)
        finally:
            with_oldest.close()
        oldest = EntryId.parse(found[0][0]) if found else oldest_read
        if oldest is not None and oldest <= self._at:
            return
        lost = DataLost(
            stream=self._part.stream,
            after=self._at.before() if self._ours else self._at,
            start=self._part.start,
            end=self._part.end,
            oldest=oldest or "none: the stream is empty",
        )
        if self._fail:
            raise lost
        self.gaps += 1
        log.warning("%s", lost)

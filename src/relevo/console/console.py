"""What the pages of the console share."""

from __future__ import annotations

from relevo.console.rendering import Pages
from relevo.work.work_queues import Office


class Console:
    """The work queues behind the pages, and how pages are rendered."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.pages = Pages(office.now_ms)

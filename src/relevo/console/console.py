"""What the pages of the console share."""

from __future__ import annotations

from relevo.console.rendering import Pages
from relevo.work.work_queues import WorkQueues


class Console:
    """The work queues behind the pages, and how pages are rendered."""

    def __init__(self, work_queues: WorkQueues) -> None:
        self.work_queues = work_queues
        self.pages = Pages(work_queues.now_ms)

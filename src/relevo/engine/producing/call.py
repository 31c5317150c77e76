"""A call of a task that has not been made yet: what `Queue.add` needs to know of it, in a dict."""

from __future__ import annotations

from typing import Any

from relevo.engine.job.add_options import AddOptions


class Call(dict[str, Any]):
    """What `task.call(...)` returns: a dict of `Queue.add`'s arguments, for whatever takes jobs.

        await queue.add_bulk([send.call(to, subject="Hello") for to in people])
        flow.add(merge.call(), after=["one", "two"])
        await queue.upsert_repeatable_job(**report.call("weekly"), repeat=RepeatPattern.cron("0 9 * * MON"))

    >>> Call("send", {"kwargs": {"to": "ada"}}, AddOptions(attempts=3))
    {'name': 'send', 'data': {'kwargs': {'to': 'ada'}}, 'attempts': 3}
    """

    def __init__(self, name: str, data: dict[str, Any], options: AddOptions) -> None:
        super().__init__(name=name, data=data, **options.given())

    @property
    def name(self) -> str:
        """The task's name."""
        return self["name"]

    @property
    def data(self) -> dict[str, Any]:
        """Its arguments, in plain values."""
        return self["data"]

    @property
    def options(self) -> dict[str, Any]:
        """How it is added, as far as that is not the usual way."""
        return {name: value for name, value in self.items() if name not in ("name", "data")}

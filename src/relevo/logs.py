"""Structured logs: one JSON object a line, and in every record of a handler the job it works for.

    logs.configure(json=True, level="INFO")

Records never hold a job's data, and the password of a URL or the value of a field called `token` is not written.
"""

from __future__ import annotations

import json as jsonlib
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO, cast

from relevo.engine.consuming.job_context import JobContext
from relevo.engine.job.redaction import HIDDEN, hide_passwords
from relevo.errors import BadArgument

__all__ = ["JobFilter", "JsonFormatter", "TextFormatter", "configure"]

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SECRET_NAME = re.compile(r"passw|secret|token|api_?key|authori[sz]ation|credential|cookie", re.IGNORECASE)


class JobFilter(logging.Filter):
    """Puts `queue`, `job_id`, `job_name` and `attempt` (from 1) on records of handlers, and on those of the tasks and threads
    they begin. For programs with a logging setup of their own: add it to their log handlers. What a program passed as `extra`
    under one of these names stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = JobContext.current()
        if context is not None:
            named = (("queue", context.queue), ("job_id", context.job_id), ("job_name", context.name))
            for name, value in (*named, ("attempt", context.attempt)):
                if not hasattr(record, name):
                    setattr(record, name, value)
        return True


class JsonFormatter(logging.Formatter):
    """`time` (UTC), `level`, `logger`, `message`, `pid`, the job if there is one, `trace_id` and `span_id` inside a span,
    whatever was passed as `extra`, and the traceback as `error`.

    >>> record = logging.makeLogRecord({"name": "app", "levelname": "INFO", "msg": "to redis://me:pw@db", "token": "x"})
    >>> line = jsonlib.loads(JsonFormatter().format(record))
    >>> line["message"], line["token"]
    ('to redis://me:***@db', '***')
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": hide_passwords(record.getMessage()),
            "pid": record.process,
        }
        line |= _span()
        for name, value in vars(record).items():
            if name not in _KNOWN and name not in line:
                line[name] = HIDDEN if _SECRET_NAME.search(name) else _plain(value)
        if record.exc_text:  # before `exc_info`: that of a failed run is without our own frames
            line["error"] = hide_passwords(record.exc_text)
        elif record.exc_info:
            line["error"] = hide_passwords(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = hide_passwords(record.stack_info)
        return jsonlib.dumps(line, ensure_ascii=False, default=_said)


class TextFormatter(logging.Formatter):
    """Lines for people: time, level, logger and message, behind it the job in brackets."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", datefmt="%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        said = super().formatMessage(record)
        job_id = getattr(record, "job_id", None)
        if job_id is None or job_id in said:
            return said
        fields = vars(record)
        about = f"{fields.get('queue')}/{fields.get('job_name')} {job_id} attempt {fields.get('attempt')}"
        return f"{said} [{about}]"

    def format(self, record: logging.LogRecord) -> str:
        return hide_passwords(super().format(record))


def configure(*, json: bool = True, level: str = "INFO", stream: TextIO | None = None) -> logging.Handler:
    """Sets up the root logger, so that what handlers log comes out the same way; returns the log handler it made. Called
    again it replaces what it set up before, and leaves the log handlers of others alone."""
    if level.upper() not in LEVELS:
        remedy = f"Use one of {', '.join(LEVELS)}."
        raise BadArgument(argument="level", value=level, reason="there is no such level", remedy=remedy)
    handler = _Configured(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if json else TextFormatter())
    handler.addFilter(JobFilter())
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if isinstance(each, _Configured)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level.upper())
    return handler


class _Configured(logging.StreamHandler[TextIO]):
    """A log handler that `configure` made."""


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return hide_passwords(value)
    if isinstance(value, dict):
        parts = cast("dict[Any, Any]", value)
        return {str(key): HIDDEN if _SECRET_NAME.search(str(key)) else _plain(part) for key, part in parts.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in cast("list[Any]", value)]
    return value


def _said(value: object) -> str:
    try:
        return hide_passwords(str(value))
    except Exception:  # noqa: BLE001 - a log line must come out whatever was passed to it
        return f"<{type(value).__name__} that cannot be shown: {traceback.format_exc(limit=0).strip()}>"


def _span() -> dict[str, str]:
    api = sys.modules.get("opentelemetry.trace")  # not imported: nobody traces
    context = None if api is None else api.get_current_span().get_span_context()
    if context is None or not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}

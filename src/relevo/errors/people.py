"""What routing, review, schemas, access, audit and webhooks raise."""

from __future__ import annotations

from relevo.errors.work_queues import WorkError


class BadExpression(WorkError):
    """The expression {expression!r} cannot be used: {reason}. Write CEL over message, labels, body, queue and now."""

    code = "BAD_EXPRESSION"
    status = 422


class ExpressionFailed(WorkError):
    """The expression {expression!r} gives no answer for this message: {reason}. Guard it with `has(…)`, or correct it."""

    code = "EXPRESSION_FAILED"
    status = 422


class BadRule(WorkError):
    """The rule {rule!r} cannot be used: {reason}."""

    code = "BAD_RULE"
    status = 422

"""`/healthz`, `/readyz`, `/metrics`: for probes and Prometheus; they ask for no key."""

from __future__ import annotations

import hmac
from typing import Any

from fastapi import APIRouter, Request, Response

from relevo.api.auth import ThisWorkQueues, header
from relevo.api.metrics import CONTENT_TYPE
from relevo.api.problems import known, nowhere
from relevo.api.responses import encode
from relevo.api.serving import serving_of
from relevo.errors import Unauthenticated
from relevo.work.store.installation import write_a_row

router = APIRouter(tags=["probes"])

_PLAIN: dict[str, Any] = {"response_model": None}


@router.get("/healthz", operation_id="get_health", summary="Whether the process is alive", **_PLAIN)
async def healthz() -> Response:
    return Response(encode({"status": "alive"}), media_type="application/json")


@router.get(
    "/readyz",
    operation_id="get_readiness",
    summary="Whether messages can be taken: a row can be written",
    responses={503: {"description": "not ready; `reason` says why"}},
    **_PLAIN,
)
async def readyz(request: Request, work_queues: ThisWorkQueues) -> Response:
    if serving_of(request).stopping.is_set():
        return _not_ready("the process is ending")
    try:
        await write_a_row(work_queues.database, work_queues.now_ms())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is why nothing can be taken
        return _not_ready(type(known(error)).__name__)
    return Response(encode({"status": "ready"}), media_type="application/json")


@router.get(
    "/metrics",
    operation_id="get_metrics",
    summary="Numbers for Prometheus",
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        401: {"description": "the token of the metrics is missing or wrong"},
        404: {"description": "not told on this host without a token"},
    },
    **_PLAIN,
)
async def metrics(request: Request, work_queues: ThisWorkQueues) -> Response:
    serving = serving_of(request)
    wanted = serving.settings
    if wanted.metrics_token is not None:
        given = header(request.scope["headers"], b"authorization") or b""
        if not hmac.compare_digest(given, f"Bearer {wanted.metrics_token}".encode()):
            raise Unauthenticated
    elif not wanted.metrics_open:
        raise nowhere("/metrics")
    return Response(await serving.metrics.text(work_queues), headers={"content-type": CONTENT_TYPE})


def _not_ready(reason: str) -> Response:
    return Response(encode({"status": "not ready", "reason": reason}), 503, media_type="application/json")

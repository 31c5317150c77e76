"""A web application that enqueues work and shows its results.

pip install fastapi uvicorn
RELEVO_REDIS_URL=redis://127.0.0.1:6390 uvicorn examples.fastapi_app:app
curl -X POST '127.0.0.1:8000/reports?customer=17'
curl 127.0.0.1:8000/reports/<id>
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request

from relevo import Queue, Tasks, Worker

URL = os.environ.get("RELEVO_REDIS_URL", "redis://127.0.0.1:6379")

tasks: Tasks[None] = Tasks()


@tasks.task(attempts=5)
async def make_report(customer: int) -> dict[str, int]:
    return {"customer": customer, "orders": customer * 3}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    # One Queue for the application: it has one connection and may be used by all requests at once. The worker here saves this
    # example a second process; where jobs are heavy, run `relevo worker` instead and leave it out.
    async with Queue("reports", redis_url=URL) as queue, Worker("reports", tasks, redis_url=URL, store_results=True):
        app.state.queue = queue
        yield


app = FastAPI(lifespan=lifespan)


def get_queue(request: Request) -> Queue:
    return request.app.state.queue


TheQueue = Annotated[Queue, Depends(get_queue)]


@app.post("/reports", status_code=202)
async def order_report(customer: int, queue: TheQueue) -> dict[str, str]:
    # The same customer twice within the hour is one report: the id makes the request safe to repeat.
    job = await make_report.options(job_id=f"report-{customer}").enqueue(queue, customer)
    return {"id": job.id}


@app.get("/reports/{job_id}")
async def show_report(job_id: str, queue: TheQueue, wait_s: float = 0) -> dict[str, Any]:
    if wait_s > 0:  # long polling: the answer comes with the end of the job
        try:
            return {"state": "completed", "report": await queue.wait_for_result(job_id, timeout=min(wait_s, 30))}
        except TimeoutError as error:
            raise HTTPException(504, "not finished yet") from error
    state = await queue.get_job_state(job_id)
    if state == "unknown":
        raise HTTPException(404, "no such report")
    return {"state": state, "report": await queue.get_job_result(job_id) if state == "completed" else None}

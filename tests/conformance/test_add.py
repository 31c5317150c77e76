from relevo import Queue
from tests.conformance.conftest import WorkerOf
from tests.conformance.runs import Runs


async def test_an_added_job_runs_once_with_its_id_name_and_data(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        job = await queue.add("welcome", {"to": "ada"})
        await worker.until(done=1)
    assert [(run.id, run.name, run.data, run.attempt) for run in runs.jobs] == [(job.id, "welcome", {"to": "ada"}, 0)]

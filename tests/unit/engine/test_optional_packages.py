"""relevo without the packages that only observing needs."""

import sys

import pytest

from relevo import Job, Metrics, Queue, Worker
from relevo.engine.consuming.spans import HandlerSpans
from relevo.errors import DependencyMissing
from relevo.wire.notes import Notes
from tests.servers.child import Child

CARRIED = Notes(trace={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})


@pytest.fixture
def without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("opentelemetry", "opentelemetry.trace", "opentelemetry.context", "opentelemetry.propagate"):
        monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.usefixtures("without_opentelemetry")
async def test_a_job_that_carries_a_context_runs_where_nobody_can_trace_it() -> None:
    async def handle(job: Job) -> str:
        return f"ran {job.name}"

    spans = HandlerSpans("q", "default", "c-1", None)
    assert spans.wanted(CARRIED)
    assert await spans.run(handle, Job("01J9", "job", {}, 0, 0), CARRIED) == "ran job"


@pytest.mark.usefixtures("without_opentelemetry")
def test_asking_for_traces_without_the_api_names_the_extra() -> None:
    async def handle(job: Job) -> None: ...

    with pytest.raises(DependencyMissing, match=r"pip install 'relevo\[otel\]'"):
        Queue("q", tracing=True)
    with pytest.raises(DependencyMissing, match=r"pip install 'relevo\[otel\]'"):
        Worker("q", handle, tracing=True)


@pytest.mark.usefixtures("without_opentelemetry")
def test_a_queue_that_is_not_told_to_trace_needs_no_api() -> None:
    queue = Queue("q")
    assert not queue._spans.wanted()  # pyright: ignore[reportPrivateUsage]


def test_asking_for_metrics_without_the_client_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(DependencyMissing, match=r"pip install 'relevo\[metrics\]'"):
        Metrics()


@pytest.mark.parametrize("package", ["prometheus_client", "opentelemetry"])
def test_importing_relevo_does_not_import_what_only_observing_needs(package: str) -> None:
    # `import relevo` alone loads nothing, since names are loaded when they are asked for: so ask for all of them.
    code = f"""
import sys
from relevo import *
missing = {{"Metrics", "Queue", "Worker"}} - set(globals())
sys.exit(f"{{missing}} not loaded: this test would see nothing" if missing else {package!r} in sys.modules)
"""
    done = Child.run(sys.executable, "-c", code)
    assert done.code == 0, done.err or f"`from relevo import *` imports {package}"

"""Spans from the producer to the handler, recorded by the OpenTelemetry SDK. See docs/how-to/observe.md, "Traces"."""

from collections.abc import Generator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from relevo import BackoffSpec, Batch, Flow, Job, Queue, RateLimited
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.servers.server import Client
from tests.support.runs import Runs

# OpenTelemetry takes one provider for the life of a process.
_EXPORTER = InMemorySpanExporter()
_PROVIDER = TracerProvider()
_PROVIDER.add_span_processor(SimpleSpanProcessor(_EXPORTER))


class Spans:
    """What was recorded in this test."""

    def of(self, kind: SpanKind) -> list[ReadableSpan]:
        return sorted(
            (span for span in _EXPORTER.get_finished_spans() if span.kind is kind), key=lambda s: s.start_time or 0
        )

    @property
    def sent(self) -> list[ReadableSpan]:
        return self.of(SpanKind.PRODUCER)

    @property
    def processed(self) -> list[ReadableSpan]:
        return self.of(SpanKind.CONSUMER)


@pytest.fixture
def spans() -> Generator[Spans]:
    if trace.get_tracer_provider() is not _PROVIDER:
        trace.set_tracer_provider(_PROVIDER)
    _EXPORTER.clear()
    yield Spans()
    _EXPORTER.clear()


def trace_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


async def test_the_handlers_span_is_a_child_of_the_adds(queue_of: QueueOf, worker_of: WorkerOf, spans: Spans) -> None:
    queue = queue_of(tracing=True)
    async with worker_of(Runs()) as worker:
        await queue.add("job", 1)
        await worker.until(done=1)
    (sent,), (processed,) = spans.sent, spans.processed
    assert processed.parent is not None
    assert (processed.parent.span_id, trace_id(processed)) == (span_id(sent), trace_id(sent))


async def test_an_add_inside_a_recorded_span_is_traced_by_itself(
    queue: Queue, worker_of: WorkerOf, spans: Spans
) -> None:
    async with worker_of(Runs()) as worker:
        with trace.get_tracer("web").start_as_current_span("POST /orders") as request:
            await queue.add("job", 1)
        await worker.until(done=1)
    assert trace_id(spans.processed[0]) == request.get_span_context().trace_id


async def test_without_a_recorded_span_nothing_is_traced_and_nothing_is_carried(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, spans: Spans
) -> None:
    await queue.add("job", 1)
    assert await raw.hlen(keys.notes) == 0
    async with worker_of(Runs()) as worker:
        await worker.until(done=1)
    assert (spans.sent, spans.processed) == ([], [])


async def test_tracing_that_is_off_stays_off_inside_a_recorded_span(
    queue_of: QueueOf, raw: Client, keys: QueueKeys, spans: Spans
) -> None:
    queue = queue_of(tracing=False)
    with trace.get_tracer("web").start_as_current_span("POST /orders"):
        job = await queue.add("job", 1)
    assert await raw.hlen(keys.notes) == 0
    assert spans.sent == []
    assert await queue.remove(job.id) == 1


async def test_a_traced_job_has_the_bytes_of_one_that_is_not(
    queue_of: QueueOf, raw: Client, keys: QueueKeys, spans: Spans
) -> None:
    """ChasquiMQ's workers read the entry; whatever we know beyond it must stand elsewhere."""
    traced, plain = queue_of(tracing=True), queue_of()
    jobs = [await traced.add("job", {"n": 1}), await plain.add("job", {"n": 1})]
    entries = [fields for _, fields in await raw.xrange(keys.stream)]
    assert [sorted(fields) for fields in entries] == [[b"d", b"n"]] * 2
    first, second = (Envelope.decode(fields[b"d"]) for fields in entries)
    assert [first.id, second.id] == [job.id for job in jobs]
    assert len(entries[0][b"d"]) == len(entries[1][b"d"])
    assert (first.payload, first.attempt, first.retry) == (second.payload, second.attempt, second.retry)
    for job in jobs:
        await plain.remove(job.id)


async def test_nothing_is_left_of_the_context_when_the_job_is_done(
    queue_of: QueueOf, worker_of: WorkerOf, raw: Client, keys: QueueKeys, spans: Spans
) -> None:
    queue = queue_of(tracing=True)
    await queue.add("job", 1)
    assert await raw.hlen(keys.notes) == 1
    async with worker_of(Runs()) as worker:
        await worker.until(done=1)
    assert await raw.exists(keys.notes) == 0


async def test_spans_say_what_the_conventions_for_messaging_ask_for(
    queue_of: QueueOf, worker_of: WorkerOf, queue_name: str, spans: Spans
) -> None:
    queue = queue_of(tracing=True)
    async with worker_of(Runs()) as worker:
        job = await queue.add("welcome", 1)
        await worker.until(done=1)
    (sent,), (processed,) = spans.sent, spans.processed
    shared = {"messaging.system": "relevo", "messaging.destination.name": queue_name, "messaging.message.id": job.id}
    assert (sent.name, processed.name) == (f"send {queue_name}", f"process {queue_name}")
    assert dict(sent.attributes or {}) == {
        **shared,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "relevo.job.name": "welcome",
    }
    assert dict(processed.attributes or {}) == {
        **shared,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "default",
        "messaging.client.id": worker.consumer_id,
        "relevo.job.name": "welcome",
        "relevo.job.attempt": 1,
    }


async def test_each_attempt_has_a_span_with_its_failure_and_retries_are_linked_to_the_add(
    queue_of: QueueOf, worker_of: WorkerOf, spans: Spans
) -> None:
    queue = queue_of(tracing=True)
    runs = Runs(fail=lambda job: ValueError("not yet") if job.attempt == 0 else None)
    async with worker_of(runs) as worker:
        await queue.add("job", 1, backoff=BackoffSpec.fixed(1))
        await worker.until(done=1, retried=1)
    first, second = spans.processed
    assert (first.status.status_code, second.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert (first.attributes or {})["error.type"] == "ValueError"
    assert [event.name for event in first.events] == ["exception"]
    assert (list(first.links), [link.context.span_id for link in second.links]) == ([], [span_id(spans.sent[0])])


async def test_a_job_told_to_come_back_later_has_not_failed(
    queue_of: QueueOf, worker_of: WorkerOf, spans: Spans
) -> None:
    queue = queue_of(tracing=True)
    told: list[str] = []

    async def handle(job: Job) -> None:
        if not told:
            told.append(job.id)
            raise RateLimited(retry_after_s=0.01)

    async with worker_of(handle) as worker:
        await queue.add("job", 1)
        await worker.until(done=1)
    first = spans.processed[0]
    assert (first.status.status_code, [event.name for event in first.events]) == (StatusCode.UNSET, ["rate limited"])


async def test_what_a_handler_records_belongs_to_its_span(queue_of: QueueOf, worker_of: WorkerOf, spans: Spans) -> None:
    queue = queue_of(tracing=True)

    def on_a_thread(job: Job) -> None:
        with trace.get_tracer("app").start_as_current_span("charge the card"):
            pass

    async with worker_of(on_a_thread) as worker:
        await queue.add("job", 1)
        await worker.until(done=1)
    (inner,) = spans.of(SpanKind.INTERNAL)
    assert inner.parent is not None
    assert inner.parent.span_id == span_id(spans.processed[0])


async def test_a_job_added_by_a_handler_continues_its_trace(queue: Queue, worker_of: WorkerOf, spans: Spans) -> None:
    async def handle(job: Job) -> None:
        if job.name == "first":
            await queue.add("second", 2)

    async with worker_of(handle) as worker:
        with trace.get_tracer("web").start_as_current_span("POST /orders"):
            await queue.add("first", 1)
        await worker.until(done=2)
    assert len({trace_id(span) for span in (*spans.sent, *spans.processed)}) == 1
    assert len(spans.processed) == 2


async def test_a_worker_with_tracing_records_jobs_that_carry_nothing(
    queue: Queue, worker_of: WorkerOf, spans: Spans
) -> None:
    async with worker_of(Runs(), tracing=True) as worker:
        await queue.add("job", 1)
        await worker.until(done=1)
    (processed,) = spans.processed
    assert processed.parent is None


async def test_many_jobs_added_at_once_share_one_span_and_carry_it(
    queue_of: QueueOf, worker_of: WorkerOf, spans: Spans
) -> None:
    queue = queue_of(tracing=True)
    async with worker_of(Runs()) as worker:
        await queue.add_bulk([{"name": "job", "data": number} for number in range(3)])
        await worker.until(done=3)
    (sent,) = spans.sent
    assert (sent.attributes or {})["messaging.batch.message_count"] == 3
    assert {trace_id(span) for span in spans.processed} == {trace_id(sent)}


async def test_the_jobs_of_a_flow_belong_to_the_trace_that_started_it(
    queue: Queue, worker_of: WorkerOf, spans: Spans
) -> None:
    flow = Flow()
    flow.add("fetch", 1)
    flow.add("merge", 2, after=["fetch"])
    async with worker_of(Runs()) as worker:
        with trace.get_tracer("web").start_as_current_span("POST /flows") as request:
            await queue.start_flow(flow)
        await worker.until(done=2)
    assert [trace_id(span) for span in spans.processed] == [request.get_span_context().trace_id] * 2


async def test_a_batch_runs_in_the_span_of_none_of_its_jobs(
    queue_of: QueueOf, worker_of: WorkerOf, spans: Spans
) -> None:
    queue = queue_of(tracing=True)
    seen: list[bool] = []

    async def insert(jobs: list[Job]) -> None:
        seen.append(trace.get_current_span().is_recording())

    async with worker_of(Batch(insert, size=2)) as worker:
        await queue.add_bulk([{"name": "row", "data": number} for number in range(2)])
        await worker.until(done=2)
    assert seen == [False]
    assert len(spans.processed) == 2

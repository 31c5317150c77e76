"""A whole queue on a real server, driven at random against the model in ledger.py: every job is in one place, and ends once."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from relevo import BackoffSpec, Job, Queue, UnrecoverableError, Worker
from relevo.errors import AddUncertain, ConnectionLost
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.pace import limit
from tests.patience import turn
from tests.property.ledger import Kept, LoopThread, Places
from tests.servers.leaks import KeyLeaks
from tests.servers.process import wait_until
from tests.servers.server import Server

# Long, so that a loaded machine never loses a lease by itself; the dead below are marked as silent for longer.
IDLE_MS, SILENT_MS = 5_000, 60_000
SOON_MS, FAR_MS = 30, 600_000
IDS = ("u0", "u1", "u2", "u3")

PLANS = st.one_of(
    st.just(("ok", 0)),
    st.just(("slow", 0)),
    st.just(("unrecoverable", 0)),
    st.integers(1, 4).map(lambda fails: ("fail", fails)),
)
DELAYS = st.sampled_from([None, None, SOON_MS, FAR_MS])


class QueueMachine(RuleBasedStateMachine):
    """Producer, workers, deaths and disturbances, one step at a time."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server
        self.keys = QueueKeys(f"machine-{uuid.uuid4().hex[:8]}")
        self.loop = LoopThread()
        self.tokens = 0
        self.jobs: dict[int, Kept] = {}
        self.by_id: dict[str, Kept] = {}
        self.trouble: list[str] = []
        self.gate = asyncio.Event()
        self.queue = self.loop.do(self._open())
        self.worker: Worker | None = None
        self.dead_workers = 0

    async def _open(self) -> Queue:
        return Queue(self.keys.queue, redis_url=self.server.url)

    # --- adding ----------------------------------------------------------------------------------------------------

    def _new(self, plan: tuple[str, int], delay_ms: int | None) -> tuple[Kept, dict[str, Any]]:
        self.tokens += 1
        kept = Kept(self.tokens, *plan, far=delay_ms == FAR_MS)
        self.jobs[kept.token] = kept
        options: dict[str, Any] = {"attempts": kept.attempts, "backoff": BackoffSpec.fixed(1, jitter_ms=0)}
        if delay_ms is not None:
            options["delay_ms"] = delay_ms
        return kept, {"name": kept.plan, "data": kept.token, **options}

    def _accepted(self, kept: Kept, job_id: str) -> None:
        if job_id in self.by_id:
            self.trouble.append(f"id {job_id} was given to jobs {self.by_id[job_id].token} and {kept.token}")
        kept.job_id = job_id
        self.by_id[job_id] = kept

    @rule(plan=PLANS, delay_ms=DELAYS)
    def add(self, plan: tuple[str, int], delay_ms: int | None) -> None:
        kept, options = self._new(plan, delay_ms)
        try:
            self._accepted(kept, self.loop.do(self.queue.add(**options)).id)
        except AddUncertain as uncertain:
            kept.uncertain = True
            self._accepted(kept, uncertain.job_id)

    @rule(plans=st.lists(st.tuples(PLANS, st.sampled_from([None, FAR_MS])), min_size=1, max_size=5))
    def add_many(self, plans: list[tuple[tuple[str, int], int | None]]) -> None:
        new = [self._new(plan, delay_ms) for plan, delay_ms in plans]
        jobs = self.loop.do(self.queue.add_bulk([options for _, options in new]))
        for (kept, _), job in zip(new, jobs, strict=True):
            self._accepted(kept, job.id)

    @rule(plan=PLANS, delay_ms=DELAYS, job_id=st.sampled_from(IDS))
    def add_unique(self, plan: tuple[str, int], delay_ms: int | None, job_id: str) -> None:
        kept, options = self._new(plan, delay_ms)
        job = self.loop.do(self.queue.add_unique(**options, job_id=job_id))
        assert job.id == job_id
        if job_id in self.by_id:
            del self.jobs[kept.token]  # seen before: nothing was added
        else:
            self._accepted(kept, job_id)

    @rule(job_id=st.sampled_from(IDS))
    def cancel(self, job_id: str) -> None:
        kept = self.by_id.get(job_id)
        try:
            cancelled = self.loop.do(self.queue.cancel_delayed(job_id))
        except ConnectionLost:  # cut before or after it was carried out: only the server knows
            cancelled = kept is not None and not self.server.call("EXISTS", self.keys.once(job_id))
            if not cancelled:
                return  # it never arrived: nothing has changed
        if cancelled:
            assert kept is not None
            assert not kept.completed
            kept.gone = "cancelled"
            del self.by_id[job_id]  # free to be used again
        else:
            assert kept is None or not kept.far

    # --- working ---------------------------------------------------------------------------------------------------

    async def _handle(self, job: Job) -> None:
        kept = self.jobs.get(job.data)
        if kept is None or kept.completed or kept.gone or job.name != kept.plan:
            self.trouble.append(f"{job} ran, and should not have: {kept}")
            return
        kept.seen_as.add(job.id)
        if kept.plan == "slow":
            await self.gate.wait()
        elif kept.plan == "unrecoverable":
            raise UnrecoverableError("never again")
        elif kept.plan == "fail" and job.attempt < kept.fails:
            if job.attempt + 1 < kept.attempts:
                kept.deaths = 0  # its next run is another entry
            raise RuntimeError("not yet")
        kept.completed += 1

    async def _start(self) -> Worker:
        worker = Worker(
            self.keys.queue,
            self._handle,
            redis_url=self.server.url,
            concurrency=3,
            read_count=4,
            run_scheduler=False,
            claim_min_idle_ms=IDLE_MS,
            read_block_ms=50,
            promote_every_ms=10,
            shutdown_deadline_s=0,
        )
        running = asyncio.ensure_future(worker.started.wait_for(timeout=limit(30)))
        await worker.__aenter__()
        await running
        return worker

    def _stop(self) -> None:
        if self.worker is not None:
            self.loop.do(self.worker.__aexit__())
            self.worker = None

    @precondition(lambda self: self.worker is None)
    @rule()
    def start_worker(self) -> None:
        self.worker = self.loop.do(self._start())

    @precondition(lambda self: self.worker is not None)
    @rule()
    def stop_worker(self) -> None:
        """At once: what runs is cancelled and handed back."""
        self._stop()
        assert not self._pending_for("c-")

    @rule()
    def let_time_pass(self) -> None:
        time.sleep(SOON_MS / 1000)  # the subject: what is due soon is due now, by the clocks of all

    @rule()
    def open_the_gate(self) -> None:
        self.loop.do(self._open_gate())

    async def _open_gate(self) -> None:
        self.gate.set()
        await turn()  # whoever waits at it goes through
        self.gate.clear()

    # --- dying -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.worker is None)
    @rule(count=st.integers(1, 3))
    def die_with_new_jobs(self, count: int) -> None:
        """A worker reads and is never heard of again."""
        call = self.server.call
        if call("EXISTS", self.keys.stream) == 0 or not call("XINFO", "GROUPS", self.keys.stream):
            call("XGROUP", "CREATE", self.keys.stream, "default", "0", "MKSTREAM")
        self.dead_workers += 1
        consumer = f"dead-{self.dead_workers}"
        stream = self.keys.stream
        reply: list[Any] = (
            call("XREADGROUP", "GROUP", "default", consumer, "COUNT", count, "STREAMS", stream, ">") or []
        )
        for entry_id, fields in (entry for _, entries in reply for entry in entries):
            self._died(entry_id, fields, consumer)

    @precondition(lambda self: self.worker is None and self.dead_workers)
    @rule(which=st.integers(0, 2))
    def die_with_a_dead_workers_job(self, which: int) -> None:
        """Another worker takes a job over and dies as well."""
        rows = self._pending_for("dead-")
        if which < len(rows):
            entry_id, consumer, _, deliveries = rows[which]
            ((_, fields),) = self.server.call("XRANGE", self.keys.stream, entry_id, entry_id)
            kept = self.by_id[Envelope.decode(fields[1]).id]
            assert kept.deaths == deliveries
            self.server.call("XCLAIM", self.keys.stream, "default", consumer, 0, entry_id)
            self._died(entry_id, fields, consumer)

    def _died(self, entry_id: bytes, fields: list[bytes], consumer: str | bytes) -> None:
        kept = self.by_id[Envelope.decode(fields[1]).id]
        kept.deaths += 1
        self.server.call("XCLAIM", self.keys.stream, "default", consumer, 0, entry_id, "IDLE", SILENT_MS, "JUSTID")

    def _pending_for(self, prefix: str) -> list[Any]:
        if self.server.call("EXISTS", self.keys.stream) == 0:
            return []
        rows = self.server.call("XPENDING", self.keys.stream, "default", "-", "+", 1000)
        return [row for row in rows if row[1].startswith(prefix.encode()) and row[1] != b"c-handed-back"]

    # --- dead letters ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.worker is None)
    @rule(limit=st.integers(1, 3))
    def replay(self, limit: int) -> None:
        letters = self.loop.do(self.queue.peek_dlq(limit))
        assert self.loop.do(self.queue.replay_dlq(limit)) == len(letters)
        for letter in letters:
            self.by_id[Envelope.decode(letter["payload"]).id].deaths = 0

    @precondition(lambda self: self.worker is None)
    @rule(limit=st.integers(1, 2))
    def purge(self, limit: int) -> None:
        letters = self.loop.do(self.queue.peek_dlq(limit))
        assert self.loop.do(self.queue.purge_dlq(limit)) == len(letters)
        for letter in letters:
            self.by_id[Envelope.decode(letter["payload"]).id].gone = "purged"

    # --- disturbing ------------------------------------------------------------------------------------------------

    @rule()
    def forget_the_scripts(self) -> None:
        self.server.call("SCRIPT", "FLUSH", "SYNC")

    @rule()
    def cut_every_connection(self) -> None:
        self.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    # --- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def every_job_is_in_one_place(self) -> None:
        assert self.trouble == []
        before = {kept.token for kept in self.jobs.values() if kept.completed}
        places = Places.of(self.server, self.keys)
        known = {kept.job_id for kept in self.jobs.values()}
        assert {*places.stream, *places.delayed, *places.dead} <= known
        assert places.nobodys() == []
        for kept in self.jobs.values():
            here = places.count(kept.job_id) if self.by_id.get(kept.job_id) is kept else 0
            assert here <= 1, f"{kept} is in {here} places"
            assert kept.seen_as <= {kept.job_id}, f"{kept} came under another id"
            assert kept.completed <= 1, f"{kept} was completed {kept.completed} times"
            if kept.token in before:
                assert not places.dead[kept.job_id], f"{kept} is completed, and a dead letter"
                # Only a worker that has not settled yet may leave it in the stream.
                assert here == 0 or (self.worker is not None and places.stream[kept.job_id]), f"{kept} is still there"
            elif not kept.completed and not kept.gone and not kept.uncertain:
                assert here == 1, f"{kept} is nowhere"

    def teardown(self) -> None:
        try:
            self._stop()
            self.every_job_is_in_one_place()
            self._drain()
            self._judge()
        finally:
            self._stop()
            self.loop.do(self.queue.close())
            self.loop.close()
            for key in self.server.call("KEYS", f"{self.keys.tag.decode()}*"):
                self.server.call("DEL", key)

    def _drain(self) -> None:
        """Everything that can run, runs: nothing is stuck."""

        async def open_for_good() -> None:
            self.gate.set()

        self.loop.do(open_for_good())
        far = {kept.job_id for kept in self.jobs.values() if kept.far and not kept.gone}
        self.worker = self.loop.do(self._start())
        rest = Places()

        def drained() -> bool:
            nonlocal rest
            rest = Places.of(self.server, self.keys)
            return not rest.stream and set(rest.delayed) <= far

        wait_until(drained, "the queue to drain", timeout=40)
        self._stop()

    def _judge(self) -> None:
        self.every_job_is_in_one_place()
        places = Places.of(self.server, self.keys)
        for kept in self.jobs.values():
            if kept.gone or kept.uncertain:
                continue
            dead = kept.ends_dead()
            where = (kept.completed, places.delayed[kept.job_id], places.reasons.get(kept.job_id, ""))
            assert where == ((0, 1, "") if kept.far else (0, 0, dead) if dead else (1, 0, "")), kept
        if self.server.call("EXISTS", self.keys.stream):
            rows = self.server.call("XINFO", "CONSUMERS", self.keys.stream, "default")
            left = {row[1].decode() for row in rows}
            assert {name for name in left if not name.startswith("dead-")} <= {"c-handed-back"}
        KeyLeaks().check(self.server)


def _drive(server: Server, *, examples: int, steps: int) -> None:
    class Machine(QueueMachine):
        def __init__(self) -> None:
            super().__init__(server)

    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks
        ),
    )


def test_a_queue_keeps_its_promises_whatever_happens_to_it_on_valkey(valkey: Server) -> None:
    _drive(valkey, examples=40, steps=25)


def test_a_queue_keeps_its_promises_whatever_happens_to_it_on_redis_86(redis86: Server) -> None:
    _drive(redis86, examples=20, steps=25)


@pytest.mark.scale
@pytest.mark.timeout(3600)
def test_a_queue_keeps_its_promises_at_length(server: Server) -> None:
    _drive(server, examples=400, steps=50)
